//! `watermaster`, the command line: it reads options, calls the libraries, and prints. Exit codes:
//! 0 done, 1 failed, 2 misused.
#![forbid(unsafe_code)]

mod bench;
mod bound;
mod check;
mod completions;
mod cost;
mod doctor;
mod failure;
mod grid;
mod init;
mod input;
mod lab;
mod live;
mod man;
mod overwrite;
mod policies;
mod progress;
mod reproduce;
mod run;
mod staging;
mod sweep;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Centralized, application-aware traffic control for data-centre networks, and the simulator that
/// proves it.
#[derive(Parser)]
#[command(
    name = "watermaster",
    version,
    arg_required_else_help = true,
    after_help = "Example:\n  watermaster run scenarios/phurti/facebook-100-jobs.toml\n\n\
                  Exit codes: 0 done, 1 failed, 2 misused (a bad scenario, trace or option)."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Init),
    Run(run::Run),
    Sweep(sweep::Sweep),
    Check(check::Check),
    Reproduce(reproduce::Reproduce),
    Bench(bench::Bench),
    Bound(bound::Bound),
    #[command(subcommand)]
    Lab(lab::Command),
    Policies(policies::Policies),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    Man(man::Man),
    Agent(live::agent::Agent),
    Controller(live::controller::Controller),
    #[command(subcommand)]
    Gather(live::gather::Command),
    Status(live::status::Status),
    Top(live::top::Top),
    Page(live::page::Page),
    Explain(live::explain::Explain),
    Order(live::order::Order),
    Events(live::events::Events),
    Recordings(live::recordings::Recordings),
    Certs(live::certs::Certs),
    Replay(live::replay::Replay),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Init(command) => command.execute(),
        Command::Run(command) => command.execute(),
        Command::Sweep(command) => command.execute(),
        Command::Check(command) => command.execute(),
        Command::Reproduce(command) => command.execute(),
        Command::Bench(command) => command.execute(),
        Command::Bound(command) => command.execute(),
        Command::Lab(command) => command.execute(),
        Command::Policies(command) => command.execute(),
        Command::Doctor(command) => command.execute(),
        Command::Completions(command) => command.execute(),
        Command::Man(command) => command.execute(),
        Command::Agent(command) => command.execute(),
        Command::Controller(command) => command.execute(),
        Command::Gather(command) => command.execute(),
        Command::Status(command) => command.execute(),
        Command::Top(command) => command.execute(),
        Command::Page(command) => command.execute(),
        Command::Explain(command) => command.execute(),
        Command::Order(command) => command.execute(),
        Command::Events(command) => command.execute(),
        Command::Recordings(command) => command.execute(),
        Command::Certs(command) => command.execute(),
        Command::Replay(command) => command.execute(),
    };
    done.map_or_else(Failure::report, |()| ExitCode::SUCCESS)
}
