//! Small requests: every server is asked for its keys at once, then those with the next copy.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::command::Query;
use crate::pool::{Answers, Budget, Fault, Server};

/// Asks the servers; `holders` has `copies` of each query in turn.
pub(crate) async fn gather(
    servers: &[Server],
    queries: &[Query],
    holders: &[u32],
    copies: usize,
    budget: &Budget,
    limit: Duration,
) -> Answers {
    let end = Instant::now() + limit;
    let mut answers: Vec<Option<Result<_, Fault>>> = vec![None; queries.len()];
    for copy in 0..copies {
        let mut groups = BTreeMap::<u32, Vec<usize>>::new();
        for (place, answer) in answers.iter().enumerate() {
            if !matches!(answer, Some(Ok(_))) {
                groups.entry(holders[place * copies + copy]).or_default().push(place);
            }
        }
        if groups.is_empty() {
            break;
        }
        // What is left of the time is for all copies that are left.
        let rounds = u32::try_from(copies - copy).unwrap_or(u32::MAX);
        let deadline = Instant::now() + end.saturating_duration_since(Instant::now()) / rounds;
        let ask = |(holder, places): (u32, Vec<usize>)| {
            let asked: Vec<Query> = places.iter().map(|place| queries[*place].clone()).collect();
            (places, servers[holder as usize].ask(&asked, budget, deadline))
        };
        let pending: Vec<_> = groups.into_iter().map(ask).collect();
        for (places, pending) in pending {
            match pending.answer().await {
                Ok(found) => {
                    for (place, found) in places.into_iter().zip(found) {
                        answers[place] = Some(found);
                    }
                }
                Err(fault) => {
                    for place in places {
                        answers[place] = Some(Err(fault.clone()));
                    }
                }
            }
        }
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err("not asked".into()))).collect()
}
