//! Reproduces the figures of the texts: which there are ([`Plan`]), their runs, cached by what they
//! depend on ([`Work`]), and our values beside the published ones ([`Reproduction`]).

mod cache;
mod judged;
mod plan;
mod runs;
mod terminal;

pub use cache::Cache;
pub use judged::{
    ChoiceResult, Drawn, FigureResult, Measure, PanelResult, Reproduction, SameSeeds, TriedResult,
};
pub use plan::{
    ChoicePlan, FigurePlan, PanelPlan, Plan, PlanError, PlannedRun, PointPlan, Selection, Unit,
};
pub use runs::{Measured, PolicyMeasured, Tick, Work};
