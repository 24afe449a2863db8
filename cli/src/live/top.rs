//! `watermaster top`: flows and links as they are now, in a terminal.

use std::cmp::Reverse;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::time::Duration;

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use serde_json::{Value, json};
use wire::client::Client;

use super::{Target, block_on, fetch, list, rate, text};
use crate::failure::{Failure, print};

/// Watch flows and links as they are now
///
/// q ends it. With --json it prints one object and ends.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster top --interval 500")]
pub(crate) struct Top {
    #[command(flatten)]
    target: Target,

    /// Time between two looks, ms
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(50..=60_000))]
    interval: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Flows that are asked for.
const FLOWS: usize = 200;

impl Top {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        block_on(async {
            let mut client = self.target.connect().await?;
            let (status, flows) = look(&mut client).await?;
            if self.json {
                return print(&super::pretty(&json!({ "status": status, "flows": flows }))?);
            }
            if !io::stdout().is_terminal() {
                return Err(Failure::misused("top needs a terminal; use --json in scripts"));
            }
            let screen = Screen::take().map_err(Failure::failed)?;
            self.show(&screen, client, (status, flows)).await
        })
    }

    async fn show(
        &self,
        screen: &Screen,
        mut client: Client,
        mut seen: (Value, Value),
    ) -> Result<(), Failure> {
        let mut trouble = None;
        loop {
            let page = |size| page(size, &seen.0, &seen.1, trouble.as_deref());
            screen.show(page).map_err(Failure::failed)?;
            let interval = Duration::from_millis(self.interval);
            let pressed = tokio::task::spawn_blocking(move || wait_for_end(interval)).await;
            if pressed.map_err(Failure::failed)?.map_err(Failure::failed)? {
                return Ok(());
            }
            let looked = match look(&mut client).await {
                Ok(looked) => Ok(looked),
                // The controller may have been started again.
                Err(_) => match self.target.connect().await {
                    Ok(fresh) => {
                        client = fresh;
                        look(&mut client).await
                    }
                    Err(failure) => Err(failure),
                },
            };
            trouble = match looked {
                Ok(looked) => {
                    seen = looked;
                    None
                }
                Err(_) => Some("the controller does not answer; what you see is old".to_owned()),
            };
        }
    }
}

async fn look(client: &mut Client) -> Result<(Value, Value), Failure> {
    let status = fetch(client, "/v1/status").await?;
    Ok((status, fetch(client, &format!("/v1/flows?most={FLOWS}")).await?))
}

/// Waits for a while; true where the user wants to end.
fn wait_for_end(interval: Duration) -> io::Result<bool> {
    const CONTROL_C: u8 = 3;
    const ESCAPE: u8 = 27;
    let keyboard = io::stdin();
    let wait = Timespec::try_from(interval).map_err(io::Error::other)?;
    if poll(&mut [PollFd::new(&keyboard, PollFlags::IN)], Some(&wait))? == 0 {
        return Ok(false);
    }
    let mut keys = [0; 64];
    let count = keyboard.lock().read(&mut keys)?;
    let keys = &keys[..count];
    // An arrow is an escape with more behind it.
    let ends = keys.contains(&b'q') || keys.contains(&CONTROL_C);
    Ok(ends || matches!(keys, [] | [ESCAPE]))
}

/// The terminal, its second screen shown and keys read as they are pressed. Dropped, it is as it was.
struct Screen {
    before: Termios,
}

impl Screen {
    fn take() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let screen = Self { before };
        write(b"\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Shows the lines that `page` makes for so many rows and columns.
    fn show(&self, page: impl Fn((usize, usize)) -> Vec<Line>) -> io::Result<()> {
        let size = tcgetwinsize(io::stdout())?;
        let (rows, columns) = (usize::from(size.ws_row), usize::from(size.ws_col));
        let mut text = "\x1b[H".to_owned();
        for (number, line) in page((rows, columns)).iter().take(rows).enumerate() {
            // What a peer calls itself must not steer the terminal.
            let shown = line.text.chars().filter(|c| !c.is_control()).take(columns);
            text += if number > 0 { "\r\n" } else { "" };
            text += line.style;
            text.extend(shown);
            text += "\x1b[0m\x1b[K";
        }
        write((text + "\x1b[J").as_bytes())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write(b"\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn write(octets: &[u8]) -> io::Result<()> {
    let mut terminal = io::stdout().lock();
    terminal.write_all(octets)?;
    terminal.flush()
}

/// A line and the escape sequence of its style.
struct Line {
    style: &'static str,
    text: String,
}

const PLAIN: &str = "";
const BOLD: &str = "\x1b[1m";
const RED: &str = "\x1b[31m";

impl Line {
    fn new(style: &'static str, text: impl Into<String>) -> Self {
        Self { style, text: text.into() }
    }

    /// Texts that share what `numbers` leave of the columns.
    fn row(style: &'static str, columns: usize, texts: &[&str], numbers: &[&str]) -> Self {
        const NUMBER: usize = 13;
        let wide = columns.saturating_sub(NUMBER * numbers.len()) / texts.len();
        let shown = wide.saturating_sub(1);
        let texts = texts.iter().map(|text| format!("{text:<wide$.shown$}"));
        let numbers = numbers.iter().map(|number| format!("{number:>NUMBER$}"));
        Self::new(style, texts.chain(numbers).collect::<String>())
    }
}

/// The busiest links in two fifths of the rows, flows below.
fn page(
    (rows, columns): (usize, usize),
    status: &Value,
    flows: &Value,
    trouble: Option<&str>,
) -> Vec<Line> {
    let head = format!(
        "epoch {}  policy {}  {} switches  {} agents  {} applications",
        status["epoch"],
        text(status, "policy"),
        list(status, "switches").len(),
        list(status, "agents").len(),
        list(status, "applications").len()
    );
    let mut lines = vec![Line::new(BOLD, head)];
    lines.extend(trouble.map(|trouble| Line::new(RED, trouble)));
    let problems = list(status, "problems").iter().take(3);
    lines.extend(problems.map(|problem| Line::new(RED, problem.as_str().unwrap_or_default())));

    let numbers = ["capacity", "limited", "measured", "flows"];
    lines.extend([Line::new(PLAIN, ""), Line::row(BOLD, columns, &["link"], &numbers)]);
    let mut busy: Vec<&Value> = list(status, "links").iter().collect();
    busy.sort_by_key(|link| Reverse(link["measured_bps"].as_u64()));
    lines.extend(busy.iter().take(rows * 2 / 5).map(|link| {
        let style = if link["up"].as_bool() == Some(false) { RED } else { PLAIN };
        let name = format!("{} -> {}", text(link, "from"), text(link, "to"));
        let rates = ["capacity_bps", "limited_bps", "measured_bps"].map(|key| rate(link, key));
        let flows = link["flows"].to_string();
        Line::row(style, columns, &[&name], &[&rates[0], &rates[1], &rates[2], &flows])
    }));

    let (texts, numbers) = (["flow", "connection"], ["intended", "enforced", "measured"]);
    lines.extend([Line::new(PLAIN, ""), Line::row(BOLD, columns, &texts, &numbers)]);
    lines.extend(flows.as_array().map_or(&[][..], Vec::as_slice).iter().map(|flow| {
        let name = format!("{}/{}/{}", text(flow, "application"), text(flow, "job"), flow["flow"]);
        let ends = ["source", "destination"].map(|end| text(&flow["connection"], end));
        let connection = format!("{} -> {}", ends[0], ends[1]);
        let rates = ["intended_bps", "enforced_bps", "measured_bps"].map(|key| rate(flow, key));
        Line::row(PLAIN, columns, &[&name, &connection], &[&rates[0], &rates[1], &rates[2]])
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_links_come_first_and_leave_room_for_flows() {
        let link = |name: &str, bps: u64| json!({ "from": name, "to": "t", "measured_bps": bps });
        let links: Vec<Value> = (0..50).map(|n| link(&format!("s{n}"), n)).collect();
        let status = json!({ "epoch": 1, "policy": "smsf", "links": links });
        let flows =
            json!([{ "application": "a", "job": "a name that is far too long", "flow": 7 }]);
        let lines = page((20, 72), &status, &flows, Some("old"));
        let starts = |line: &Line| line.text.split(' ').next().unwrap_or_default().to_owned();
        let starts: Vec<String> = lines.iter().map(starts).collect();
        assert_eq!(starts[..6], ["epoch", "old", "", "link", "s49", "s48"]);
        assert_eq!(starts[12..], ["", "flow", "a/a"]);
        assert!(lines[3..].iter().all(|line| line.text.is_empty() || line.text.len() == 72));
    }
}
