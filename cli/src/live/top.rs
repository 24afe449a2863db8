//! `watermaster top`: flows and links as they are now, in a terminal.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph, Row, Table};
use serde_json::{Value, json};
use wire::client::Client;

use super::{Target, block_on, fetch, limits, list, octets_of, rate, rate_of, text};
use crate::failure::{Failure, print};

/// Watch flows and links as they are now
///
/// Of each flow it says what was asked (its size), what it is given (the rate that the policy wants for it) and what it got
/// (as measured). q ends it. With --json it prints one object and ends.
#[derive(Args)]
#[command(after_help = "Example:\n  watermaster top --interval 500")]
pub(crate) struct Top {
    #[command(flatten)]
    target: Target,

    /// Time between two updates, ms
    #[arg(long, value_name = "MS", default_value_t = 1000,
          value_parser = clap::value_parser!(u64).range(50..=60_000))]
    interval: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Flows requested.
const FLOWS: usize = 200;

impl Top {
    pub(crate) fn execute(self) -> Result<(), Failure> {
        block_on(async {
            let mut client = self.target.connect().await?;
            let (status, flows) = look(&mut client).await?;
            if self.json {
                return print(&super::pretty(&json!({ "status": status, "flows": flows }))?);
            }
            if !std::io::stdout().is_terminal() {
                return Err(Failure::misused("top needs a terminal; use --json in scripts"));
            }
            let mut terminal = ratatui::try_init().map_err(Failure::failed)?;
            let shown = self.show(&mut terminal, client, (status, flows)).await;
            ratatui::restore();
            shown
        })
    }

    async fn show(
        &self,
        terminal: &mut DefaultTerminal,
        mut client: Client,
        mut seen: (Value, Value),
    ) -> Result<(), Failure> {
        let mut trouble = None;
        loop {
            let draw = |frame: &mut ratatui::Frame<'_>| {
                page(frame, &seen.0, &seen.1, trouble.as_deref());
            };
            terminal.draw(draw).map_err(Failure::failed)?;
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

/// Waits; returns whether the user wants to quit.
fn wait_for_end(interval: Duration) -> std::io::Result<bool> {
    if !event::poll(interval)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => {
            let stop = key.modifiers.contains(KeyModifiers::CONTROL);
            matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                || (stop && key.code == KeyCode::Char('c'))
        }
        _ => false,
    })
}

fn page(frame: &mut ratatui::Frame<'_>, status: &Value, flows: &Value, trouble: Option<&str>) {
    let problems = list(status, "problems");
    let lines = u16::try_from(problems.len().min(3) + 1 + usize::from(trouble.is_some()));
    let links = list(status, "links");
    let area = Layout::vertical([
        Constraint::Length(lines.unwrap_or(4)),
        Constraint::Percentage(40),
        Constraint::Min(4),
    ])
    .split(frame.area());
    let head = format!(
        "epoch {}  policy {}  {} switches  {} agents  {} applications",
        status["epoch"],
        text(status, "policy"),
        list(status, "switches").len(),
        list(status, "agents").len(),
        list(status, "applications").len()
    );
    let red = Style::new().fg(Color::Red);
    let mut top = vec![Line::from(Span::styled(head, Style::new().add_modifier(Modifier::BOLD)))];
    top.extend(trouble.map(|trouble| Line::from(Span::styled(trouble.to_owned(), red))));
    top.extend(problems.iter().take(3).map(|problem| {
        Line::from(Span::styled(problem.as_str().unwrap_or_default().to_owned(), red))
    }));
    frame.render_widget(Paragraph::new(top), area[0]);

    let mut busy: Vec<&Value> = links.iter().collect();
    busy.sort_by_key(|link| std::cmp::Reverse(link["measured_bps"].as_u64()));
    let rows = busy.iter().map(|link| {
        let down = link["up"].as_bool() == Some(false);
        let row = Row::new([
            format!("{} -> {}", text(link, "from"), text(link, "to")),
            rate(link, "capacity_bps"),
            limits(link, "limited_bps"),
            rate(link, "measured_bps"),
            link["flows"].to_string(),
        ]);
        if down { row.style(red) } else { row }
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(7),
    ];
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(rows, widths)
        .header(Row::new(["Link", "Capacity", "Given", "Got", "Flows"]).style(bold))
        .block(Block::bordered().title("links"));
    frame.render_widget(table, area[1]);

    let rows = flows.as_array().map_or(&[][..], Vec::as_slice).iter().map(|flow| {
        Row::new([
            format!("{}/{}/{}", text(flow, "application"), text(flow, "job"), text(flow, "flow")),
            format!(
                "{} -> {}",
                text(&flow["connection"], "source"),
                text(&flow["connection"], "destination")
            ),
            flow["bytes"].as_u64().map_or_else(|| "no end".to_owned(), octets_of),
            flow["intended_bps"].as_u64().map_or_else(|| "no limit".to_owned(), rate_of),
            rate(flow, "measured_bps"),
            note(flow).to_owned(),
        ])
    });
    let widths = [
        Constraint::Fill(2),
        Constraint::Fill(2),
        Constraint::Length(10),
        Constraint::Length(13),
        Constraint::Length(13),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(["Flow", "Connection", "Asked", "Given", "Got", "Note"]).style(bold))
        .block(Block::bordered().title("flows"));
    frame.render_widget(table, area[2]);
}

/// What is wrong with a flow.
fn note(flow: &Value) -> &'static str {
    if !flow["failed"].is_null() {
        "not enforced"
    } else if !flow["contradicted"].is_null() {
        "contradicted"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use control::{FlowStatus, LinkStatus};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use units::Rate;

    use super::*;

    /// What the terminal shows, line by line.
    fn shown(flows: &Value) -> String {
        let link = LinkStatus {
            from: "h1".to_owned(),
            to: "s1".to_owned(),
            up: true,
            capacity_bps: Rate::from_mbps(1_000),
            measured_bps: Some(Rate::from_mbps(5)),
            flows: 1,
            ..LinkStatus::default()
        };
        let status = control::Status {
            epoch: 3,
            policy: "smsf".to_owned(),
            links: vec![link],
            ..control::Status::default()
        };
        let mut terminal = Terminal::new(TestBackend::new(120, 24)).unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| page(frame, &json!(status), flows, None);
        terminal.draw(draw).unwrap();
        terminal.backend().to_string()
    }

    /// The line of `screen` that has `part`, without what is between its words.
    fn line(screen: &str, part: &str) -> String {
        let found = screen.lines().find(|line| line.contains(part));
        let found = found.unwrap_or_else(|| panic!("{part}: {screen}"));
        found.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Fields are read by their names, so the flows are of the type that the controller answers with.
    #[test]
    fn a_flow_is_told_in_the_words_of_the_page() {
        let flow = super::super::unheld();
        let second = FlowStatus {
            flow: "2".to_owned(),
            intended_bps: None,
            failed: None,
            bytes: None,
            contradicted: Some("more was delivered".to_owned()),
            ..flow.clone()
        };
        let screen = shown(&json!([flow, second]));
        assert!(line(&screen, "policy").contains("epoch 3 policy smsf 0 switches"), "{screen}");
        assert!(line(&screen, "Connection").contains("Flow Connection Asked Given Got Note"));
        let first = line(&screen, "mr/sort/1");
        assert!(
            first.contains("10.0.0.1:1 -> 10.0.0.2:2 8.00 MB 12.0 Mbit/s 5.00 Mbit/s not enforced"),
            "{first}"
        );
        let second = line(&screen, "mr/sort/2");
        assert!(second.contains("no end no limit 5.00 Mbit/s contradicted"), "{second}");
        assert!(line(&screen, "h1 -> s1").contains("1.00 Gbit/s - 5.00 Mbit/s 1"));
        let page = include_str!("../../../page/web/src/main.ts");
        for word in ["Asked", "Given", "Got", "Note", "Link", "Flow", "Flows"] {
            assert!(page.contains(&format!("\"{word}\"")), "the page has no column {word}");
        }
    }
}
