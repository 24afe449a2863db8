//! Serves the page on loopback to the one who has its address, and passes questions on to a controller
//! (`docs/decisions/the-page-is-served-on-loopback.md`).
//!
//! Who may read: whoever has the key in the path. Another site's script can't, although it can name this
//! port: it doesn't know the key, `Host` must be this address (so that no name can be rebound to it), and
//! what a browser says to come from another site is refused. Only questions pass, no declarations or acts.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use wire::client::{Client, ClientError};

/// Connections of browsers at once, and how long one may take over a request's head.
const CONNECTIONS: usize = 64;
const IDLE: Duration = Duration::from_secs(60);
/// How long the controller may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Longest request line's path that is passed on, octets.
const LONGEST: usize = 8 << 10;

/// Connects to a controller, with the rights of whoever runs this.
pub type Connect = Box<
    dyn Fn() -> std::pin::Pin<Box<dyn Future<Output = Result<Client, String>> + Send>>
        + Send
        + Sync,
>;

/// A page that is served.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    address: SocketAddr,
    key: String,
    page: Bytes,
    /// Who answers questions, if anybody does.
    controller: Option<Connect>,
    /// A connection to it that waits for the next question.
    client: Mutex<Option<Client>>,
}

impl Server {
    /// Listens on 127.0.0.1; `port` 0 has the system choose. `page` is the document.
    ///
    /// # Errors
    /// The port is taken, or the system gives no random numbers.
    pub async fn bind(port: u16, page: String, controller: Option<Connect>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let (page, client) = (Bytes::from(page), Mutex::default());
        let shared = Arc::new(Shared { address, key: key()?, page, controller, client });
        Ok(Self { listener, shared })
    }

    /// What a browser opens. Whoever has it can read what its user may read.
    pub fn url(&self) -> String {
        format!("http://{}/{}/", self.shared.address, self.shared.key)
    }

    /// Serves until the future is dropped.
    pub async fn run(self) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                // As when no file descriptor is left.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let shared = Arc::clone(&self.shared);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let shared = Arc::clone(&shared);
                    async move { Ok::<_, Infallible>(shared.answer(&request).await) }
                });
                let served = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(IDLE)
                    .max_headers(64)
                    .serve_connection(TokioIo::new(stream), service);
                // A browser that goes away is no news.
                let _ = served.await;
                drop(place);
            });
        }
    }
}

/// 128 random bits in hexadecimal digits.
fn key() -> io::Result<String> {
    let mut random = [0; 16];
    io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut random)?;
    Ok(random.iter().map(|octet| format!("{octet:02x}")).collect())
}

type Answer = Response<Full<Bytes>>;

impl Shared {
    async fn answer(&self, request: &Request<Incoming>) -> Answer {
        if let Err(why) = self.may_read(request) {
            return refuse(StatusCode::FORBIDDEN, "request", why);
        }
        let asked = request.uri().path_and_query().map_or("", |asked| asked.as_str());
        let Some(path) = asked.strip_prefix('/').and_then(|rest| self.within(rest)) else {
            let why = "is not the page's; open the address that watermaster printed";
            return refuse(StatusCode::FORBIDDEN, "path", why);
        };
        if request.method() != Method::GET {
            let why = "can't be used here; the page only asks";
            return refuse(StatusCode::METHOD_NOT_ALLOWED, "method", why);
        }
        match path {
            "" => reply(StatusCode::OK, "text/html; charset=utf-8", self.page.clone()),
            path if is_question(path) => self.pass_on(path).await,
            _ => refuse(StatusCode::NOT_FOUND, "path", "there is nothing here"),
        }
    }

    /// What follows the key. It is compared in time that doesn't tell how much of it is right.
    fn within<'a>(&self, rest: &'a str) -> Option<&'a str> {
        let (given, path) = rest.split_once('/')?;
        let (given, key) = (given.as_bytes(), self.key.as_bytes());
        let differs = given.iter().zip(key).fold(0, |differs, (a, b)| differs | (a ^ b));
        (given.len() == key.len() && differs == 0).then_some(path)
    }

    fn may_read(&self, request: &Request<Incoming>) -> Result<(), &'static str> {
        const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
        let headers = request.headers();
        let here = self.address.to_string();
        let by_name = format!("localhost:{}", self.address.port());
        let is_here = |text: &[u8]| text == here.as_bytes() || text == by_name.as_bytes();
        if !headers.get(HOST).is_some_and(|host| is_here(host.as_bytes())) {
            return Err("names another host; open the address that watermaster printed");
        }
        let own =
            |origin: &HeaderValue| origin.as_bytes().strip_prefix(b"http://").is_some_and(is_here);
        if !headers.get(ORIGIN).is_none_or(own) {
            return Err("comes from another site");
        }
        // A link or a form of another site; `none` is what the user typed or a file that opens it.
        let fetched = headers.get(SITE).map(HeaderValue::as_bytes);
        match fetched {
            None | Some(b"none" | b"same-origin") => Ok(()),
            Some(_) if is_navigation(request) => Ok(()),
            Some(_) => Err("comes from another site"),
        }
    }

    async fn pass_on(&self, path: &str) -> Answer {
        let Some(connect) = &self.controller else {
            return refuse(StatusCode::NOT_FOUND, "controller", "is not asked by this page");
        };
        if path.len() > LONGEST {
            return refuse(StatusCode::URI_TOO_LONG, "path", "is too long");
        }
        let path = format!("/{path}");
        let asked = timeout(ANSWER, async {
            // Out of its place while it is used: one that was given up half-way is not used again.
            let waiting = self.client.lock().await.take().filter(|client| !client.is_closed());
            let mut client = match waiting {
                Some(client) => client,
                None => connect().await?,
            };
            let say = |error: ClientError| error.to_string();
            let answer = match client.ask(Method::GET, &path, Vec::new()).await {
                Ok(answer) => answer,
                // It may have closed the connection since.
                Err(_) => {
                    client = connect().await?;
                    client.ask(Method::GET, &path, Vec::new()).await.map_err(say)?
                }
            };
            *self.client.lock().await = Some(client);
            Ok::<_, String>(answer)
        });
        match asked.await {
            Ok(Ok((status, body))) => reply(status, "application/json", body),
            Ok(Err(why)) => refuse(StatusCode::BAD_GATEWAY, "controller", &why),
            Err(_) => refuse(
                StatusCode::GATEWAY_TIMEOUT,
                "controller",
                "does not answer; is it overloaded?",
            ),
        }
    }
}

/// A file with the page's address, as `--open` writes, is another site to it; it may lead here, not read.
fn is_navigation(request: &Request<Incoming>) -> bool {
    const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
    request.headers().get(MODE).is_some_and(|mode| mode == "navigate")
}

/// What the page asks; nothing else passes.
fn is_question(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or(path);
    let explained = path.strip_prefix("v1/explain/");
    // No way leads out of what is explained.
    let plain = |rest: &str| !rest.split('/').any(|part| matches!(part, "" | "." | ".."));
    matches!(path, "v1/status" | "v1/flows" | "v1/jobs") || explained.is_some_and(plain)
}

fn refuse(status: StatusCode, field: &str, reason: &str) -> Answer {
    let said = serde_json::json!({ "error": { "field": field, "reason": reason } });
    reply(status, "application/json", Bytes::from(said.to_string()))
}

fn reply(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    // The scripts and styles by their hashes, nothing from elsewhere, and no frame around it.
    let policy = format!("{}; frame-ancestors 'none'", crate::policy());
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        answer.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    }
    let headers = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (REFERRER_POLICY, "no-referrer"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in headers {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_questions_pass() {
        for path in
            ["v1/status", "v1/flows?most=200", "v1/jobs", "v1/explain/a/b", "v1/explain/a/b/c"]
        {
            assert!(is_question(path), "{path}");
        }
        for path in [
            "metrics",
            "v1/applications/a",
            "v1/explain/../status",
            "v1/explain/",
            "v1/explain/a//b",
            "v1/explain/./a",
            "v1/explain/a/..",
            "v1/explain",
            "v1/status/",
            "v1/orders",
            "v1/events",
            "v1/recordings",
            "/v1/status",
            "V1/status",
            "v1%2fstatus",
            "v1/flows#",
        ] {
            assert!(!is_question(path), "{path}");
        }
    }

    #[tokio::test]
    async fn only_get_passes() {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let server = Server::bind(0, "the page".into(), None).await.unwrap();
        let (address, url) = (server.shared.address, server.url());
        let path = url.split_once(&address.to_string()).unwrap().1.to_owned();
        let running = tokio::spawn(server.run());
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
            for question in ["", "v1/status"] {
                let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
                let request = format!(
                    "{method} {path}{question} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(request.as_bytes()).await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                let is_refused = answer.starts_with("HTTP/1.1 405");
                assert_eq!(is_refused, method != "GET", "{method} {question}: {answer}");
            }
        }
        running.abort();
    }
}
