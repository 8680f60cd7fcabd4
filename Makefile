# What one does with carrick. Each target installs what it lacks; see README.md.

CARGO ?= cargo
RELEASE = target/release/carrick
LAB_PROGRAM = target/release/carrick-lab

# command=package; a service's package brings no running service (scripts/need).
# clang compiles the BPF programs; libbpf, which is built with the program, uses libelf and zlib.
NEEDED_TO_BUILD = cc=gcc clang=clang pkg-config=pkgconf /usr/include/libelf.h=libelf-dev /usr/include/zlib.h=zlib1g-dev \
	/usr/include/linux/bpf.h=linux-libc-dev
NEEDED_TO_TEST = $(NEEDED_TO_BUILD) curl=curl wget=wget git=git openssl=openssl python3=python3 ip=iproute2 \
	nginx=nginx-light haproxy=haproxy squid=squid chromium=chromium htpasswd=apache2-utils socat=socat \
	ethtool=ethtool nft=nftables redis-server=redis-server redis-cli=redis-tools wrk=wrk tcpdump=tcpdump \
	nghttp=nghttp2-client h2load=nghttp2-client nghttpd=nghttp2-server go=golang-go \
	/usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream
# Programs that are not packages of Debian, and the folder that they are built in.
GO_PROGRAMS = $(CURDIR)/target/go-bin
NEEDED_OF_GO = h2spec=github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible \
	pebble=github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3 \
	pebble-challtestsrv=github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv@v2.10.3 \
	grpc-interop-client=google.golang.org/grpc/interop/client@v1.85.0 \
	grpc-interop-server=google.golang.org/grpc/interop/server@v1.85.0
# For the workloads grpc-... of the benchmark, beside the last one.
WANTED_OF_GO = ghz=github.com/bojand/ghz/cmd/ghz@v0.120.0 $(filter grpc-interop-server=%,$(NEEDED_OF_GO))
NEEDED_TO_BENCH = $(NEEDED_TO_BUILD) ip=iproute2 nginx=nginx-light haproxy=haproxy squid=squid wrk=wrk \
	h2load=nghttp2-client openssl=openssl /usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream
# They take part where they can be had; the table names who is left out.
WANTED_TO_BENCH = varnishd=varnish traffic_server=trafficserver

NEEDED_TO_LAB = $(NEEDED_TO_BUILD) ip=iproute2 taskset=util-linux nginx=nginx-light haproxy=haproxy squid=squid \
	/usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream
# 3proxy takes part where it is installed; not every distribution has it.
NEEDED_TO_TORTURE = $(NEEDED_TO_BUILD) ip=iproute2 ss=iproute2 taskset=util-linux nginx=nginx-light haproxy=haproxy \
	socat=socat bpftool=bpftool /usr/lib/nginx/modules/ngx_stream_module.so=libnginx-mod-stream
# Seeds for each engine in the splice library's part of the torture.
SEEDS ?= 3000
# Seeds of the torture of HTTP.
HTTP_RUNS ?= 200
# Where the results and the report of the laboratory go.
LAB_RESULTS ?= lab-results

.PHONY: run build build-lab test test-quick lint deny bench lab torture soak kernels man deb fuzz clean need-rust

run: build
	$(RELEASE) run

build: need-rust
	@scripts/need $(NEEDED_TO_BUILD)
	$(CARGO) build --release --locked -p carrick

build-lab: build
	$(CARGO) build --release --locked -p carrick-lab

# Which tests were skipped, and why: each adds a line. CARRICK_REQUIRE_ROOT=1: whoever would be, for want of root or of a program, fails.
SKIPPED = target/skipped
test test-quick: export CARRICK_SKIPPED = $(CURDIR)/$(SKIPPED)
test bench: export PATH := $(PATH):$(GO_PROGRAMS)
# Most tests wait most of the time.
test test-quick: export RUST_TEST_THREADS ?= $(shell expr 8 + 2 \* $$(nproc))

# Everything: unit, property, table and end-to-end tests. As root also those that need namespaces; without root they are named at the end.
test: need-rust
	@scripts/need $(NEEDED_TO_TEST)
	@scripts/need-go $(GO_PROGRAMS) $(NEEDED_OF_GO)
	@mkdir -p $(dir $(SKIPPED)) && : > $(SKIPPED)
	$(CARGO) test --workspace --locked --all-targets --no-fail-fast
	$(CARGO) test --workspace --locked --doc
	$(CARGO) test -p carrick --features shared-cache --locked --lib --test suite -- cache::shared caching::shared config::keys config::mistakes
	@sort -u $(SKIPPED)

# What needs neither root nor another program than the compilers: about a minute, once it is built.
test-quick: need-rust
	@scripts/need $(NEEDED_TO_BUILD)
	@mkdir -p $(dir $(SKIPPED)) && : > $(SKIPPED)
	CARRICK_QUICK=1 $(CARGO) test --workspace --locked --lib --no-fail-fast
	CARRICK_QUICK=1 $(CARGO) test -p carrick-logic --locked --tests
	@sort -u $(SKIPPED)

lint: need-rust
	@scripts/need $(NEEDED_TO_BUILD)
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --locked --all-targets -- -D warnings
	$(CARGO) clippy -p carrick --features shared-cache --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --locked --no-deps

# Licences, doubled and banned crates, sources. (Advisories need the network of their database: `cargo deny check advisories`.)
deny: need-rust
	@command -v cargo-deny >/dev/null || $(CARGO) install --locked cargo-deny@0.20.2
	$(CARGO) deny --locked --all-features check bans licenses sources

bench: build-lab
	@scripts/need $(NEEDED_TO_BENCH)
	@for pair in $(WANTED_TO_BENCH); do scripts/need $$pair || echo "without $$pair"; done
	@if command -v go >/dev/null; then scripts/need-go $(GO_PROGRAMS) $(WANTED_OF_GO) || echo "without ghz"; fi
	$(LAB_PROGRAM) bench $(BENCH)

# The papers' experiments, a quick look at each, and their report. Needs root. The report is drawn also
# when something failed, and says what.
lab: build-lab
	@scripts/need $(NEEDED_TO_LAB)
	$(LAB_PROGRAM) run all --quick --out $(LAB_RESULTS) $(LAB); ended=$$?; $(LAB_PROGRAM) report $(LAB_RESULTS) && exit $$ended

# What breaks relays that are not careful: the splice library with thousands of seeds, then HTTP through carrick as a switch
# with some hundreds, then carrick with each engine and its peers, every case in full. Needs root. For
# example: make torture TORTURE="--relay carrick --seed 7" HTTP_RUNS=20
torture: build-lab
	@scripts/need $(NEEDED_TO_TORTURE)
	CARRICK_TORTURE_SEEDS=$(SEEDS) $(CARGO) test --locked -p carrick-splice --test splice torture
	$(LAB_PROGRAM) torture --http --runs $(HTTP_RUNS)
	$(LAB_PROGRAM) torture $(TORTURE)

# Real clients and servers through a switch whose requests the kernel forwards, while it is stopped and reloaded, and packets are lost. For
# example: make soak SOAK="120 1" for two minutes with 1 % of loss. Needs root.
soak: build
	@scripts/need wrk=wrk nginx=nginx-light nft=nftables curl=curl ip=iproute2 xargs=findutils
	scripts/soak/run target/release/carrick $(SOAK)

# carrick's BPF programs and engines on Debian's kernels, in virtual machines: docs/internals/kernels.md. Needs root.
kernels: need-rust
	@scripts/need $(NEEDED_TO_BUILD)
	scripts/kernels/run $(if $(FULL),--full) $(KERNELS)

man: build
	@mkdir -p target/man target/completions
	$(RELEASE) generate man target/man
	for shell in bash zsh fish; do $(RELEASE) generate completions $$shell > target/completions/carrick.$$shell; done

# A Debian package in target/.
deb: build
	packaging/build-deb

# Fuzzes one target, for a minute: make fuzz TARGET=request_head. Needs a nightly compiler.
fuzz: need-rust
	@command -v cargo-fuzz >/dev/null || $(CARGO) install --locked cargo-fuzz
	cd fuzz && $(CARGO) +nightly fuzz run $(TARGET) -- -max_total_time=60

clean:
	$(CARGO) clean

need-rust:
	@command -v $(CARGO) >/dev/null || { echo "Rust is needed: install rustup (package rustup, or the installer of the Rust project)." >&2; exit 1; }
