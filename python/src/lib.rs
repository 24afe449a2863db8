//! What the Python package `watermaster` loads: scenarios that are run, policies that are written in Python, and
//! results as Arrow tables. `watermaster/__init__.py` says what of it is public, `_watermaster.pyi` its types.

mod cache;
mod network;
mod own;
mod result;
mod scenario;
mod table;
mod words;

use std::hash::{DefaultHasher, Hasher as _};

use pyo3::prelude::*;

/// The module. What it holds is documented where Python looks, in `_watermaster.pyi` and by docstrings.
#[pymodule]
fn _watermaster(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<scenario::ScenarioError>())?;
    module.add("RunError", module.py().get_type::<scenario::RunError>())?;
    module.add_class::<cache::PyCache>()?;
    module.add_class::<network::PyNetwork>()?;
    module.add_class::<network::PyLink>()?;
    module.add_class::<scenario::PyScenario>()?;
    module.add_class::<result::PyOutcome>()?;
    module.add_class::<table::PyTable>()?;
    module.add_function(wrap_pyfunction!(scenario::policies, module)?)
}

/// A hash of all sources that the points of a sweep depend on, those of the seam to Python and of verdicts too.
fn sources() -> String {
    let mut hasher = DefaultHasher::new();
    let own = [
        include_str!("network.rs"),
        include_str!("own.rs"),
        include_str!("result.rs"),
        include_str!("scenario.rs"),
        include_str!("words.rs"),
        include_str!("../../experiment/src/published.rs"),
    ];
    for source in own.iter().chain([&experiment::SOURCES]) {
        hasher.write(source.as_bytes());
    }
    format!("{:016x}", hasher.finish())
}
