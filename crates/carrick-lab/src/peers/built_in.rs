//! The configurations as they are kept in the repository.

/// Their file names and contents.
pub(super) const TEMPLATES: [(&str, &str); 36] = [
    ("carrick.toml", include_str!("../../peers/carrick.toml")),
    ("haproxy.cfg", include_str!("../../peers/haproxy.cfg")),
    ("nginx.conf", include_str!("../../peers/nginx.conf")),
    (
        "nginx-stream.conf",
        include_str!("../../peers/nginx-stream.conf"),
    ),
    ("squid.conf", include_str!("../../peers/squid.conf")),
    ("3proxy.cfg", include_str!("../../peers/3proxy.cfg")),
    ("socat.args", include_str!("../../peers/socat.args")),
    ("origin.conf", include_str!("../../peers/origin.conf")),
    // Variants, for experiments.
    (
        "carrick-extensions.toml",
        include_str!("../../peers/carrick-extensions.toml"),
    ),
    (
        "carrick-split.toml",
        include_str!("../../peers/carrick-split.toml"),
    ),
    (
        "carrick-adaptive.toml",
        include_str!("../../peers/carrick-adaptive.toml"),
    ),
    (
        "carrick-satellite.toml",
        include_str!("../../peers/carrick-satellite.toml"),
    ),
    (
        "carrick-gateway-stalled.toml",
        include_str!("../../peers/carrick-gateway-stalled.toml"),
    ),
    (
        "carrick-gateway-satellite.toml",
        include_str!("../../peers/carrick-gateway-satellite.toml"),
    ),
    (
        "haproxy-extensions.cfg",
        include_str!("../../peers/haproxy-extensions.cfg"),
    ),
    (
        "nginx-extensions.conf",
        include_str!("../../peers/nginx-extensions.conf"),
    ),
    (
        "haproxy-cache.cfg",
        include_str!("../../peers/haproxy-cache.cfg"),
    ),
    (
        "squid-cache.conf",
        include_str!("../../peers/squid-cache.conf"),
    ),
    // With TLS.
    (
        "carrick-https.toml",
        include_str!("../../peers/carrick-https.toml"),
    ),
    (
        "haproxy-https.cfg",
        include_str!("../../peers/haproxy-https.cfg"),
    ),
    (
        "nginx-https.conf",
        include_str!("../../peers/nginx-https.conf"),
    ),
    // For gRPC, without TLS.
    (
        "carrick-grpc.toml",
        include_str!("../../peers/carrick-grpc.toml"),
    ),
    (
        "haproxy-grpc.cfg",
        include_str!("../../peers/haproxy-grpc.cfg"),
    ),
    (
        "nginx-grpc.conf",
        include_str!("../../peers/nginx-grpc.conf"),
    ),
    // On the way of connections.
    (
        "carrick-gateway.toml",
        include_str!("../../peers/carrick-gateway.toml"),
    ),
    ("pepsal.args", include_str!("../../peers/pepsal.args")),
    // With a cache.
    (
        "carrick-cache.toml",
        include_str!("../../peers/carrick-cache.toml"),
    ),
    (
        "nginx-cache.conf",
        include_str!("../../peers/nginx-cache.conf"),
    ),
    (
        "squid-accelerator.conf",
        include_str!("../../peers/squid-accelerator.conf"),
    ),
    ("varnish.vcl", include_str!("../../peers/varnish.vcl")),
    ("varnish.args", include_str!("../../peers/varnish.args")),
    (
        "trafficserver-runroot.yaml",
        include_str!("../../peers/trafficserver-runroot.yaml"),
    ),
    (
        "trafficserver-records.config",
        include_str!("../../peers/trafficserver-records.config"),
    ),
    (
        "trafficserver-remap.config",
        include_str!("../../peers/trafficserver-remap.config"),
    ),
    (
        "trafficserver-storage.config",
        include_str!("../../peers/trafficserver-storage.config"),
    ),
    (
        "trafficserver-ip_allow.yaml",
        include_str!("../../peers/trafficserver-ip_allow.yaml"),
    ),
];
