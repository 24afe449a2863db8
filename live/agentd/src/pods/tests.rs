#![allow(clippy::unwrap_used)] // a test may panic

use std::fs;
use std::future::pending;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Mutex;

use serde_json::json;
use tempfile::TempDir;
use testing::wait::PATIENCE as LONG;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use wire::kubernetes::Access;

use super::*;

const UID: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

/// A status and a body; nothing: no answer ever comes.
type Answer = Option<(u16, String)>;

/// An API server that is imitated: what it answers, and what it was asked.
struct Server {
    access: Access,
    answer: Arc<Mutex<Answer>>,
    asked: Arc<Mutex<Vec<String>>>,
    _folder: TempDir,
}

impl Server {
    async fn new(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let [token, ca] = ["token", "ca.crt"].map(|file| folder.path().join(file));
        fs::write(&token, "sesame\n").unwrap();
        let server = Self {
            access: Access { address: Some(address), token, ca },
            answer: Arc::new(Mutex::new(answer)),
            asked: Arc::default(),
            _folder: folder,
        };
        let (answer, asked) = (Arc::clone(&server.answer), Arc::clone(&server.asked));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (answer, asked) = (Arc::clone(&answer), Arc::clone(&asked));
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        let Ok(octet) = stream.read_u8().await else { return };
                        head.push(octet);
                    }
                    asked.lock().unwrap().push(String::from_utf8(head).unwrap());
                    let said = answer.lock().unwrap().clone();
                    let Some((status, body)) = said else { return pending().await };
                    let octets = body.len();
                    let head = format!(
                        "HTTP/1.1 {status} Said\r\nconnection: close\r\ncontent-length: {octets}\r\n\r\n"
                    );
                    let _ = stream.write_all((head + &body).as_bytes()).await;
                });
            }
        });
        server
    }

    fn answers(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    fn client(&self, most: usize) -> ApiServer {
        ApiServer::new(&self.access, most).unwrap()
    }

    fn wanted(&self) -> Kubernetes {
        Kubernetes { node: Some("n1".to_owned()), access: self.access.clone() }
    }
}

/// A list of one pod.
fn listed(name: &str) -> Answer {
    let metadata = json!({ "namespace": "default", "name": name, "uid": UID });
    let pod = json!({ "metadata": metadata, "spec": { "nodeName": "n1" } });
    Some((200, json!({ "kind": "PodList", "items": [pod] }).to_string()))
}

/// The inode of a control group, which is made.
fn group(root: &Path, path: &str) -> u64 {
    let path = root.join(path);
    fs::create_dir_all(&path).unwrap();
    fs::metadata(path).unwrap().ino()
}

/// Waits until a group is of this pod.
async fn becomes(pods: &mut Pods, group: u64, name: &str) {
    let looks = async {
        loop {
            pods.look_up([group].into_iter());
            if pods.of(group) == Some(name) {
                break;
            }
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, looks).await.expect("the pod isn't known");
}

#[tokio::test]
async fn the_pods_of_the_node_alone_are_asked_for_with_the_token() {
    let server = Server::new(listed("a")).await;
    let known = ask(&mut server.client(MOST_ANSWER), "n1", LONG).await.unwrap();
    assert_eq!(known.values().map(|name| &**name).collect::<Vec<_>>(), ["default/a"]);
    let asked = server.asked.lock().unwrap().concat();
    let first = "GET /api/v1/pods?fieldSelector=spec.nodeName%3Dn1&resourceVersion=0 HTTP/1.1\r\n";
    assert!(asked.starts_with(first), "{asked}");
    assert!(asked.contains("\r\nauthorization: Bearer sesame\r\n"), "{asked}");
}

#[tokio::test]
async fn servers_that_refuse_hang_or_say_too_much_are_errors() {
    let server = Server::new(None).await;
    let said = async |answer: Answer, patience| {
        server.answers(answer);
        ask(&mut server.client(1_000), "n1", patience).await.unwrap_err()
    };
    let hangs = said(None, Duration::from_millis(50)).await;
    assert_eq!(hangs, "no answer of the API server within 50 ms");
    let no = |status| Some((status, "{\"message\":\"not\\nnow\"}".to_owned()));
    for (status, remedy) in
        [(401, "has not expired"), (403, "grant list of pods"), (500, "not now")]
    {
        let said = said(no(status), LONG).await;
        assert!(said.contains("can't list the pods of n1") && said.contains(remedy), "{said}");
        assert!(said.contains("not now") && !said.contains("sesame"), "{said}");
    }
    let long = said(Some((200, " ".repeat(2_000))), LONG).await;
    assert!(long.contains("can't be read"), "{long}");
    let other = said(Some((200, "[]".to_owned())), LONG).await;
    assert!(other.contains("no list of pods"), "{other}");
}

#[tokio::test]
async fn a_group_is_of_the_pod_that_has_its_uid_also_where_it_comes_later() {
    let server = Server::new(listed("a")).await;
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let own = format!("kubepods/burstable/pod{UID}");
    let first = group(root, &format!("{own}/first"));
    let mut pods = Pods::follow(&server.wanted(), root.to_path_buf()).unwrap();
    becomes(&mut pods, first, "default/a").await;
    // Between two answers.
    let [second, other, service] = [
        format!("{own}/second"),
        "kubepods/pod0f8fad5b/other".to_owned(),
        "system.slice/x.service".to_owned(),
    ]
    .map(|path| group(root, &path));
    assert_eq!(pods.of(second), None);
    pods.look_up([first, second, other, service].into_iter());
    let found = [first, second, other, service].map(|group| pods.of(group));
    assert_eq!(found, [Some("default/a"), Some("default/a"), None, None]);
}

#[tokio::test]
async fn what_is_known_of_a_group_stays_where_another_is_looked_up() {
    let mut pods = Pods::of_group(1, "default/a");
    pods.look_up([2].into_iter());
    assert_eq!([1, 2].map(|group| pods.of(group)), [Some("default/a"), None]);
}

#[tokio::test]
async fn without_an_answer_there_are_no_pods_until_one_comes() {
    let server = Server::new(Some((500, String::new()))).await;
    let root = tempfile::tempdir().unwrap();
    let own = group(root.path(), &format!("kubepods/pod{UID}"));
    let mut pods = Pods::follow(&server.wanted(), root.path().to_path_buf()).unwrap();
    let is_asked = async {
        while server.asked.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, is_asked).await.expect("nobody asks");
    pods.look_up([own].into_iter());
    assert_eq!(pods.of(own), None);
    server.answers(listed("a"));
    becomes(&mut pods, own, "default/a").await;
}

#[test]
fn a_node_that_is_none_is_refused_before_anybody_is_asked() {
    let access = Access {
        address: Some("http://127.0.0.1:1".parse().unwrap()),
        token: PathBuf::from("token"),
        ca: PathBuf::from("ca"),
    };
    let wanted = Kubernetes { node: Some("n1&watch=1\n".to_owned()), access };
    let said = check(&wanted).unwrap_err();
    assert_eq!(said, "\"n1&watch=1 \" is no node; write kubernetes.node");
}
