//! Connections to memcached servers: one each, on which questions follow each other without waiting.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::{self, Answer};
use crate::command::{Form, Query, Verb};

/// Questions that wait for a server at most; more are refused.
const MOST_WAITING: usize = 4096;
/// How long a server that could not be reached is not tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Why a server's answer is missing, as clients are told.
pub type Fault = Arc<str>;

/// Octets of values that may be held.
#[derive(Clone, Debug)]
pub struct Budget {
    left: Arc<AtomicUsize>,
    whole: Option<Arc<AtomicUsize>>,
}

impl Budget {
    /// Of so many octets.
    pub fn new(octets: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(octets)), whole: None }
    }

    /// At most so many octets of it: what is held of the part counts in the whole too.
    pub fn part(&self, octets: usize) -> Self {
        Self { whole: Some(Arc::clone(&self.left)), ..Self::new(octets) }
    }

    /// Counts octets as held until the result is dropped; `None` if they are too many.
    pub fn take(&self, octets: usize) -> Option<Hold> {
        let whole = match &self.whole {
            Some(whole) => Some(Taken::new(whole, octets)?),
            None => None,
        };
        Some(Hold { _own: Taken::new(&self.left, octets)?, _whole: whole })
    }
}

/// Octets that are held.
#[derive(Debug)]
pub struct Hold {
    _own: Taken,
    _whole: Option<Taken>,
}

#[derive(Debug)]
struct Taken(usize, Arc<AtomicUsize>);

impl Taken {
    fn new(left: &Arc<AtomicUsize>, octets: usize) -> Option<Self> {
        let taken = left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(octets));
        taken.ok().map(|_| Self(octets, Arc::clone(left)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.1.fetch_add(self.0, Ordering::Relaxed);
    }
}

/// A server's answer for a key: what it said, and what that holds.
#[derive(Clone, Debug)]
pub struct Record {
    /// As [`Answer`] has it.
    pub octets: Bytes,
    _hold: Option<Arc<Hold>>,
}

impl Record {
    /// Of octets within the budget. A line alone isn't counted: what was done is said, whatever others hold.
    ///
    /// # Errors
    /// They are too many.
    pub fn new(octets: Bytes, budget: &Budget) -> Result<Self, Fault> {
        let end = octets.iter().position(|octet| *octet == b'\n');
        if end.is_none_or(|end| end + 1 == octets.len()) {
            return Ok(Self { octets, _hold: None });
        }
        // What stands around it counts too.
        let hold = budget.take(octets.len() + 128).ok_or("out of memory")?;
        Ok(Self { octets, _hold: Some(Arc::new(hold)) })
    }
}

/// For each key of a question: the answer, `None` where the key isn't there.
pub type Answers = Vec<Result<Option<Record>, Fault>>;

/// How a question is answered.
#[derive(Debug)]
enum Expected {
    /// By values of these keys.
    Values(VecDeque<Bytes>),
    /// By so many answers of a form.
    Forms(VecDeque<Form>),
}

#[derive(Debug)]
struct Question {
    octets: Bytes,
    expected: Expected,
    /// Of who asks.
    budget: Budget,
    deadline: Instant,
    to: oneshot::Sender<Result<Answers, Fault>>,
}

/// A server, to be asked.
#[derive(Clone, Debug)]
pub struct Server {
    name: Arc<str>,
    questions: mpsc::Sender<Question>,
}

/// An answer that is on its way.
#[derive(Debug)]
pub struct Pending {
    name: Arc<str>,
    answer: Result<oneshot::Receiver<Result<Answers, Fault>>, Fault>,
}

impl Pending {
    /// The answer.
    ///
    /// # Errors
    /// The server doesn't answer, or not as it should.
    pub async fn answer(self) -> Result<Answers, Fault> {
        match self.answer?.await {
            Ok(answer) => answer,
            Err(_) => Err(format!("{}: the connection was lost", self.name).into()),
        }
    }
}

impl Server {
    /// The server at `address`, whose values have at most `item` octets. A task keeps its connection until all who
    /// may ask are gone.
    pub fn start(name: &str, address: SocketAddr, item: usize) -> Self {
        let (questions, asked) = mpsc::channel(MOST_WAITING);
        let name: Arc<str> = name.into();
        let line = Line { name: Arc::clone(&name), address, item };
        tokio::spawn(line.run(asked));
        Self { name, questions }
    }

    /// Asks for keys, of which either all or none are asked for by a meta command. Values count in `budget`.
    pub fn ask(&self, queries: &[Query], budget: &Budget, deadline: Instant) -> Pending {
        let mut octets = BytesMut::new();
        let mut forms = VecDeque::new();
        let mut keys = VecDeque::new();
        for query in queries {
            match &query.verb {
                Verb::Meta(flags) => {
                    octets.extend_from_slice(
                        &[b"mg ", &query.key[..], b" ", flags, b"\r\n"].concat(),
                    );
                    let is_quiet = Verb::is_quiet(flags);
                    if is_quiet {
                        octets.extend_from_slice(b"mn\r\n");
                    }
                    forms.push_back(if is_quiet { Form::Quiet } else { Form::Meta });
                }
                verb => {
                    if octets.is_empty() {
                        octets.extend_from_slice(if *verb == Verb::Get { b"get" } else { b"gets" });
                    }
                    octets.extend_from_slice(b" ");
                    octets.extend_from_slice(&query.key);
                    keys.push_back(query.key.clone());
                }
            }
        }
        if keys.is_empty() {
            return self.send(octets.freeze(), Expected::Forms(forms), budget, deadline);
        }
        octets.extend_from_slice(b"\r\n");
        self.send(octets.freeze(), Expected::Values(keys), budget, deadline)
    }

    /// Asks for values of `keys` by a line that begins so.
    pub fn ask_with(
        &self,
        start: &[u8],
        keys: &[Bytes],
        budget: &Budget,
        deadline: Instant,
    ) -> Pending {
        let line = [start, b" ", &keys.join(&b' '), b"\r\n"].concat();
        self.send(line.into(), Expected::Values(keys.iter().cloned().collect()), budget, deadline)
    }

    /// Says something that is answered once.
    pub fn say(&self, octets: Bytes, form: Form, budget: &Budget, deadline: Instant) -> Pending {
        self.send(octets, Expected::Forms(VecDeque::from([form])), budget, deadline)
    }

    fn send(
        &self,
        octets: Bytes,
        expected: Expected,
        budget: &Budget,
        deadline: Instant,
    ) -> Pending {
        let (to, answer) = oneshot::channel();
        let question = Question { octets, expected, budget: budget.clone(), deadline, to };
        let answer = match self.questions.try_send(question) {
            Ok(()) => Ok(answer),
            Err(_) => Err(format!("{}: too many requests wait for it", self.name).into()),
        };
        Pending { name: Arc::clone(&self.name), answer }
    }
}

/// The task of a server's connection.
struct Line {
    name: Arc<str>,
    address: SocketAddr,
    item: usize,
}

impl Line {
    async fn run(self, mut asked: mpsc::Receiver<Question>) {
        let mut lost: Option<(Instant, Fault)> = None;
        while let Some(first) = asked.recv().await {
            if first.to.is_closed() {
                continue;
            }
            if let Some((when, why)) = &lost
                && when.elapsed() < RETRY
            {
                let _ = first.to.send(Err(Arc::clone(why)));
                continue;
            }
            lost = None;
            let why = match timeout_at(first.deadline, TcpStream::connect(self.address)).await {
                Err(_) => "no connection in time".to_owned(),
                Ok(Err(error)) => error.to_string(),
                Ok(Ok(stream)) => {
                    let why = self.serve(stream, first, &mut asked).await;
                    tracing::info!("{}: {why}", self.name);
                    // It may be there again at once.
                    continue;
                }
            };
            tracing::warn!("{} at {}: {why}", self.name, self.address);
            let why: Fault = format!("{}: {why}", self.name).into();
            let _ = first.to.send(Err(Arc::clone(&why)));
            lost = Some((Instant::now(), why));
        }
    }

    /// Until the connection ends, and why it does. What was not answered then is dropped, which who asked notices.
    async fn serve(
        &self,
        stream: TcpStream,
        first: Question,
        asked: &mut mpsc::Receiver<Question>,
    ) -> String {
        let _ = stream.set_nodelay(true);
        let (read, write) = stream.into_split();
        let (sent, waiting) = mpsc::channel(MOST_WAITING);
        tokio::select! {
            ended = write_on(write, first, asked, sent) => match ended {
                Ok(()) => "nobody asks any more".to_owned(),
                Err(error) => error.to_string(),
            },
            why = self.read_on(read, waiting) => why,
        }
    }

    async fn read_on(
        &self,
        mut read: OwnedReadHalf,
        mut waiting: mpsc::Receiver<Question>,
    ) -> String {
        let mut buffer = BytesMut::new();
        loop {
            let asked = match waiting.try_recv() {
                Ok(question) => Some(question),
                // A question is here before it is sent: what is left over answers none, and would be taken for the
                // next one's answer.
                Err(_) if !buffer.is_empty() => None,
                Err(_) => tokio::select! {
                    biased;
                    question = waiting.recv() => match question {
                        Some(question) => Some(question),
                        None => return "nobody asks any more".to_owned(),
                    },
                    // A server that goes is noticed before it is asked.
                    got = read.read_buf(&mut buffer) => match got {
                        Ok(0) => return "closed".to_owned(),
                        Ok(_) => waiting.try_recv().ok(),
                        Err(error) => return error.to_string(),
                    },
                },
            };
            let Some(mut question) = asked else {
                return "it speaks without being asked".to_owned();
            };
            let (mut answers, mut skip) = (Answers::new(), 0);
            loop {
                match self.take(&mut buffer, &mut skip, &mut question, &mut answers) {
                    Err(why) => {
                        let _ = question.to.send(Err(format!("{}: {why}", self.name).into()));
                        return why.to_string();
                    }
                    Ok(true) => break,
                    Ok(false) => {}
                }
                match timeout_at(question.deadline, read.read_buf(&mut buffer)).await {
                    Err(_) => {
                        let _ = question
                            .to
                            .send(Err(format!("{}: no answer in time", self.name).into()));
                        return "no answer in time".to_owned();
                    }
                    Ok(Ok(0)) => return "closed".to_owned(),
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => return error.to_string(),
                }
            }
            let _ = question.to.send(Ok(answers));
        }
    }

    /// Takes what has come of an answer, passing over the octets of `skip`; whether it is whole.
    fn take(
        &self,
        buffer: &mut BytesMut,
        skip: &mut usize,
        question: &mut Question,
        answers: &mut Answers,
    ) -> Result<bool, answer::AnswerError> {
        let budget = &question.budget;
        loop {
            let gone = buffer.len().min(*skip);
            buffer.advance(gone);
            *skip -= gone;
            if *skip > 0 {
                return Ok(false);
            }
            match &mut question.expected {
                Expected::Values(keys) => match answer::values(buffer, self.item)? {
                    None => return Ok(false),
                    Some(Answer::Value(key, octets)) => {
                        leave_out(keys, &key, answers)?;
                        answers.push(Record::new(octets, budget).map(Some));
                    }
                    Some(Answer::Large(key, octets)) => {
                        leave_out(keys, &key, answers)?;
                        answers.push(Err(self.large()));
                        *skip = octets;
                    }
                    Some(Answer::End) => {
                        answers.extend(keys.drain(..).map(|_| Ok(None)));
                        return Ok(true);
                    }
                    Some(Answer::Whole(error)) => {
                        let said = String::from_utf8_lossy(&error);
                        let why: Fault = format!("{}: {}", self.name, said.trim_end()).into();
                        answers.extend(keys.drain(..).map(|_| Err(Arc::clone(&why))));
                        return Ok(true);
                    }
                },
                Expected::Forms(forms) => {
                    let Some(form) = forms.front() else { return Ok(true) };
                    match answer::whole(buffer, *form, self.item)? {
                        Some(Answer::Whole(octets)) => {
                            answers.push(Record::new(octets, budget).map(Some));
                        }
                        Some(Answer::Large(_, octets)) => {
                            answers.push(Err(self.large()));
                            *skip = octets;
                        }
                        _ => return Ok(false),
                    }
                    forms.pop_front();
                }
            }
        }
    }

    fn large(&self) -> Fault {
        format!("{}: a value is larger than item allows", self.name).into()
    }
}

/// Takes the keys up to this one as not there: servers leave out what they haven't, and keep the order.
fn leave_out(
    keys: &mut VecDeque<Bytes>,
    found: &Bytes,
    answers: &mut Answers,
) -> Result<(), answer::AnswerError> {
    while keys.pop_front().ok_or(answer::AnswerError::Strange)? != *found {
        answers.push(Ok(None));
    }
    Ok(())
}

/// Sends questions as they come, and passes them on to who reads their answers.
async fn write_on(
    mut write: OwnedWriteHalf,
    first: Question,
    asked: &mut mpsc::Receiver<Question>,
    sent: mpsc::Sender<Question>,
) -> io::Result<()> {
    let mut next = Some(first);
    while let Some(mut question) = next.take() {
        let octets = std::mem::take(&mut question.octets);
        let deadline = question.deadline;
        if sent.send(question).await.is_err() {
            return Ok(());
        }
        let late = || io::Error::from(io::ErrorKind::TimedOut);
        timeout_at(
            deadline.max(Instant::now() + Duration::from_millis(1)),
            write.write_all(&octets),
        )
        .await
        .map_err(|_| late())??;
        next = asked.recv().await;
    }
    let _ = timeout(Duration::from_millis(1), write.shutdown()).await;
    Ok(())
}
