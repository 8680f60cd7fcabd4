//! Where a request goes: to a server of an upstream, to the origin that it names, to a parent proxy; or why it is refused.
use crate::config::plan::{
    ForwardPlan, HashOn, Mode, ParentPlan, Responses, RouteCache, RoutePlan, ServerAddress,
};
use crate::config::tls::ChallengeFiles;
use crate::config::users::Busy;
use crate::context::client::Client;
use crate::context::destination::Destination;
use crate::context::destination::NextHop;
use crate::context::destination::client_key;
use crate::context::original;
use crate::context::request_context::RequestContext;
use crate::context::request_log::CLIENT_CLOSED_REQUEST;
use crate::net::io::poll_reset;
use crate::net::scratch::Scratch;
use crate::net::transport::Transport;
use crate::reply::Reply;
use crate::upstream::group::Group;
use carrick_logic::access::{Denied, Literal, NameShape, parse_ip_literal};
use carrick_logic::credentials;
use carrick_logic::http1::{Method, RequestHead, Target, TargetForm};
use carrick_logic::route::pick_request;
use carrick_splice::Choice;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// What happens with a request.
pub enum Decision {
    /// It is passed on, and the response comes back.
    Relay(Destination),
    /// `CONNECT`: a tunnel to the destination.
    Tunnel(Destination),
    /// carrick answers itself.
    Reply(Reply),
}

/// Decides about the request in `scratch`; the user's name, if one authenticated.
pub async fn decide(client: &Client, scratch: &Scratch, user: &mut Option<String>) -> Decision {
    let (bytes, head) = (scratch.request.as_slice(), &scratch.request_head);
    if head.max_forwards(bytes) == Some(0) {
        return Decision::Reply(last_hop(head.method));
    }
    if let Mode::Forward(plan) = &client.context.listener.mode
        && let Some(reply) = authenticate(client, plan, bytes, head, user).await
    {
        return Decision::Reply(reply);
    }
    decide_for(&client.context, scratch)
}

/// The same for a client that is known to be one that may ask.
pub fn decide_for(context: &RequestContext, scratch: &Scratch) -> Decision {
    let (bytes, head) = (scratch.request.as_slice(), &scratch.request_head);
    match &context.listener.mode {
        Mode::Switch(routes) => switch(context, routes, bytes, head),
        Mode::Forward(plan) => forward(context, plan, bytes, head),
        Mode::Tunnel(_) | Mode::Split(_) | Mode::Link(_) => Decision::Reply(Reply::new(
            500,
            "internal",
            "a tunnel listener does not speak HTTP",
        )),
    }
}

/// RFC 9110 section 7.6.2: a request that may not be forwarded any further is answered here.
fn last_hop(method: Method) -> Reply {
    let (status, detail) = match method {
        Method::Options => (200, "This is as far as Max-Forwards lets the request go."),
        _ => (405, "This proxy does not reflect requests."),
    };
    let mut reply = Reply::new(status, "max_forwards", detail);
    reply.field = Some((
        "Allow",
        "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS".into(),
    ));
    reply
}

fn switch(
    context: &RequestContext,
    routes: &[RoutePlan],
    bytes: &[u8],
    head: &RequestHead,
) -> Decision {
    if head.method == Method::Connect {
        return Decision::Reply(no_connect());
    }
    if let Some(reply) = challenge(context, bytes, head) {
        return Decision::Reply(reply);
    }
    if is_misdirected(context, head.host.of(bytes)) {
        return Decision::Reply(Reply::new(
            421,
            "misdirected",
            "Connections for this name are passed on undecrypted. Connect again, for this name alone.",
        ));
    }
    if let Some(port) = context.listener.redirect_port
        && !(context.is_trusted_proxy()
            && head.states_https(bytes, context.listener.trusted.stated_in))
    {
        return Decision::Reply(redirect(port, bytes, head));
    }
    let route = pick_request(routes.iter().map(|route| &route.conditions), bytes, head)
        .and_then(|index| routes.get(index));
    let Some(route) = route else {
        return Decision::Reply(Reply::new(
            404,
            "no_route",
            "No route of this server matches the request.",
        ));
    };
    let Some(index) = route.upstream else {
        return to_original(context, How::of(route), bytes, head);
    };
    let Some(group) = context.live.groups.get(index) else {
        return Decision::Reply(Reply::new(
            503,
            "no_upstream",
            "The route's upstream does not exist.",
        ));
    };
    if original::is_one_of(context, group.state.servers.iter().map(|one| &one.address)) {
        return to_original(context, How::of(route), bytes, head);
    }
    Decision::Relay(Destination {
        next_hop: NextHop::Group {
            group: Rc::clone(group),
            index,
        },
        engine: route.engine,
        responses: route.responses,
        cache: route.cache.clone(),
        pace: route.pace,
        form: TargetForm::Origin,
    })
}

/// Whether a client asks on a connection for another name, or for none, for one whose connections go elsewhere: clients of HTTP/2 do where
/// one certificate has both (RFC 9113 section 9.1.1).
fn is_misdirected(context: &RequestContext, host: &[u8]) -> bool {
    let Some(tls) = context.tls.as_ref() else {
        return false;
    };
    // Of a connection for no name, `*` says nothing.
    let is_named = tls.server_name.is_some();
    context.listener.routes_by_name().any(|route| {
        let pattern = route.conditions.sni.as_ref();
        pattern.is_some_and(|pattern| {
            pattern.matches(host) && (is_named || !matches!(pattern.shape(), NameShape::Any))
        })
    })
}

/// The answer to an authority that certifies the host, if carrick is being asked for it (RFC 8555 section 8.3).
fn challenge(context: &RequestContext, bytes: &[u8], head: &RequestHead) -> Option<Reply> {
    let acme = context.live.plan().acme.as_ref()?;
    let path = head.path.of(bytes);
    let token = path.strip_prefix(ChallengeFiles::PATH.as_bytes())?;
    if context.listener.tls.is_some() || !matches!(head.method, Method::Get | Method::Head) {
        return None;
    }
    let answer = ChallengeFiles::new(&acme.folder).http(head.host.of(bytes), token)?;
    Some(Reply {
        is_bare: true,
        ..Reply::new(200, "acme_challenge", answer)
    })
}

/// Sends the client to `https://`, with path and query as they are.
fn redirect(port: u16, bytes: &[u8], head: &RequestHead) -> Reply {
    let path_and_query = match head.target {
        Target::Origin { path_and_query } | Target::Absolute { path_and_query, .. } => {
            path_and_query.of(bytes)
        }
        Target::Authority { .. } | Target::Asterisk => b"",
    };
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    let (host, path_and_query) = (text(head.host.of(bytes)), text(path_and_query));
    if host.is_empty() {
        return Reply::new(400, "no_host", "Use https:// and a `Host` field.");
    }
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let port = match port {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let slash = if path_and_query.starts_with('/') {
        ""
    } else {
        "/"
    };
    // 308 keeps the method, but old clients do not know it.
    let status = match head.method {
        Method::Get | Method::Head => 301,
        _ => 308,
    };
    let mut reply = Reply::new(status, "redirect_to_https", "Use https:// in the URL.");
    let location = format!("https://{host}{port}{slash}{path_and_query}");
    reply.field = Some(("Location", location.into()));
    reply
}

/// How what goes to an original destination is treated.
struct How<'p> {
    engine: Choice,
    responses: Responses,
    cache: &'p Option<Arc<RouteCache>>,
    pace: Option<usize>,
}

impl<'p> How<'p> {
    fn of(route: &'p RoutePlan) -> Self {
        Self {
            engine: route.engine,
            responses: route.responses,
            cache: &route.cache,
            pace: route.pace,
        }
    }
}

fn no_connect() -> Reply {
    let mut reply = Reply::new(
        405,
        "connect_to_switch",
        "CONNECT is for forward proxies; this is not one.",
    );
    reply.field = Some((
        "Allow",
        "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS".into(),
    ));
    reply
}

/// Where the client's connection wanted to go; whatever the request calls it.
fn to_original(
    context: &RequestContext,
    how: How<'_>,
    bytes: &[u8],
    head: &RequestHead,
) -> Decision {
    let Some(destination) = context.original else {
        return Decision::Reply(Reply::new(
            500,
            "internal",
            "this connection was not intercepted",
        ));
    };
    match original::next_hop(context, destination, Some(head.host.of(bytes))) {
        Ok(next_hop) => Decision::Relay(Destination {
            next_hop,
            engine: how.engine,
            responses: how.responses,
            cache: how.cache.clone(),
            pace: how.pace,
            form: TargetForm::Origin,
        }),
        Err(denied) => Decision::Reply(refused(denied)),
    }
}

/// What is hashed to choose a server, if the upstream's balancer hashes. Without it, as where a cookie is missing, each server
/// has its turn.
pub fn hash_key<'b>(
    client: SocketAddr,
    group: &Group,
    bytes: &'b [u8],
    head: &RequestHead,
    address: &'b mut [u8; 16],
) -> Option<&'b [u8]> {
    let plan = &group.state.plan;
    if plan.balance != carrick_logic::balance::Algorithm::Hash {
        return None;
    }
    let key = match &plan.hash_on {
        HashOn::Path => head.path.of(bytes),
        HashOn::Host => head.host.of(bytes),
        HashOn::Client => client_key(client, address),
        HashOn::Header(name) => head.field(bytes, name)?,
        HashOn::Cookie(name) => head.cookie(bytes, name)?,
    };
    Some(key).filter(|key| !key.is_empty())
}

async fn authenticate(
    client: &Client,
    plan: &ForwardPlan,
    bytes: &[u8],
    head: &RequestHead,
    user: &mut Option<String>,
) -> Option<Reply> {
    let users = plan.users.as_ref()?;
    let given = head
        .field(bytes, "proxy-authorization")
        .and_then(credentials::read_basic);
    client.downstream.push_held();
    if let Some(given) = given {
        let verifying = Box::pin(users.verify(&given, client.context.who().ip()));
        match unless_reset(&client.downstream.transport, verifying).await {
            Some(Ok(true)) => {
                *user = Some(given.user);
                return None;
            }
            Some(Ok(false)) => {}
            Some(Err(Busy)) => {
                let detail = "Too many passwords are being checked.";
                let mut reply = Reply::new(503, "passwords_busy", detail);
                reply.field = Some(("Retry-After", "1".into()));
                return Some(reply);
            }
            None => return Some(Reply::new(CLIENT_CLOSED_REQUEST, "authentication", "")),
        }
    }
    let mut reply = Reply::new(
        407,
        "authentication",
        "This proxy asks for a user name and password (Basic).",
    );
    reply.field = Some((
        "Proxy-Authenticate",
        "Basic realm=\"carrick\", charset=\"UTF-8\"".into(),
    ));
    Some(reply)
}

/// Awaits `future`; `None` if the client resets its connection before.
async fn unless_reset<F: Future + Unpin>(client: &Transport, mut future: F) -> Option<F::Output> {
    let mut watches = true;
    poll_fn(|cx| match Pin::new(&mut future).poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending if watches && poll_reset(client, &mut watches, cx) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    })
    .await
}

fn forward(
    context: &RequestContext,
    plan: &ForwardPlan,
    bytes: &[u8],
    head: &RequestHead,
) -> Decision {
    let connect = head.method == Method::Connect;
    if context.original.is_some() {
        if connect {
            return Decision::Reply(no_connect());
        }
        let host = head.host.of(bytes);
        // A parent wants a whole URL, for which a host is needed.
        let parent = parent_for(plan, host)
            .filter(|parent| !host.is_empty() && !original::is_one_of(context, [&parent.proxy]));
        return match parent {
            Some(parent) => match context.listener.access.check_name(host, 0, false) {
                Ok(()) => Decision::Relay(through(context.source(), parent, plan)),
                Err(denied) => Decision::Reply(refused(denied)),
            },
            None => {
                let how = How {
                    engine: plan.engine,
                    responses: Responses::Read,
                    cache: &plan.cache,
                    pace: plan.pace,
                };
                to_original(context, how, bytes, head)
            }
        };
    }
    let default_port = match head.target {
        Target::Absolute { .. } => 80,
        Target::Authority { .. } => 443,
        Target::Origin { .. } | Target::Asterisk => {
            return Decision::Reply(Reply::new(
                400,
                "not_a_proxy_request",
                "This is a forward proxy: it requires the whole URL in the request line (GET http://host/path) or CONNECT host:port. \
                 Set it as the proxy of your client, for example: curl -x http://this-address http://example.org/",
            ));
        }
    };
    let host = head.host.of(bytes);
    let port = head.port.unwrap_or(default_port);
    let Ok(host_text) = std::str::from_utf8(host) else {
        return Decision::Reply(Reply::new(400, "bad_host", "The host name is not ASCII."));
    };
    if let Err(denied) = context.listener.access.check_name(host, port, connect) {
        return Decision::Reply(refused(denied));
    }
    // Through a parent, CONNECT is an ordinary request whose 2xx makes a tunnel.
    if let Some(parent) = parent_for(plan, host) {
        return Decision::Relay(through(context.source(), parent, plan));
    }
    let server = match parse_ip_literal(host) {
        Literal::Ip(ip) => ServerAddress::Ip(SocketAddr::new(ip, port)),
        _ => ServerAddress::Name {
            host: host_text.to_ascii_lowercase(),
            port,
        },
    };
    let destination = Destination {
        next_hop: NextHop::Origin {
            key: server.to_string().into_bytes().into(),
            server,
            parent: false,
            tls: None,
        },
        engine: plan.engine,
        responses: Responses::Read,
        cache: plan.cache.clone(),
        pace: plan.pace,
        form: TargetForm::Origin,
    };
    if connect {
        Decision::Tunnel(destination)
    } else {
        Decision::Relay(destination)
    }
}

/// The parent that a request for this host goes through, if any.
fn parent_for<'p>(plan: &'p ForwardPlan, host: &[u8]) -> Option<&'p ParentPlan> {
    plan.parent.as_ref().filter(|parent| {
        parent.destinations.is_empty()
            || parent
                .destinations
                .iter()
                .any(|pattern| pattern.matches(host))
    })
}

/// Through the parent. Its idle connections have a key of their own, since they were opened without regard to the destination rules.
fn through(source: Option<IpAddr>, parent: &ParentPlan, plan: &ForwardPlan) -> Destination {
    let server = parent.proxy.clone();
    let name = match &parent.tls {
        // No other connection was opened by these rules.
        Some(tls) => format!("parent {server} by {:p}", Arc::as_ptr(tls)),
        None => format!("parent {server}"),
    };
    Destination {
        next_hop: NextHop::Origin {
            key: original::idle_key(source, &name),
            server,
            parent: true,
            tls: parent.tls.clone(),
        },
        engine: plan.engine,
        responses: Responses::Read,
        cache: plan.cache.clone(),
        pace: plan.pace,
        form: TargetForm::Absolute,
    }
}

fn refused(denied: Denied) -> Reply {
    let label = match denied {
        Denied::Port => "denied_port",
        Denied::Name => "denied_name",
        Denied::Address => "denied_address",
        Denied::Form => "odd_address",
    };
    Reply::new(403, label, denied.to_string())
}
