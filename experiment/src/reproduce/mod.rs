//! Reproduces the figures of the texts: which there are ([`Plan`]), their runs, cached by what they
//! depend on ([`run`]), and our values beside the published ones ([`Reproduction`]).

mod cache;
mod judged;
mod markdown;
mod plan;
mod runs;
mod terminal;

pub use cache::Cache;
pub use judged::{Drawn, FigureResult, Measure, PanelResult, Reproduction};
pub use plan::{FigurePlan, PanelPlan, Plan, PlanError, PointPlan, Selection, Unit};
pub use runs::{Measured, PolicyMeasured, Tick, run};
