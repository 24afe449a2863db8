//! Results on disk.

use std::path::PathBuf;

use experiment::reproduce::Cache;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

#[pyclass(name = "Cache", module = "watermaster", frozen)]
pub struct PyCache(Cache);

#[pymethods]
impl PyCache {
    #[new]
    fn new(folder: PathBuf) -> PyResult<Self> {
        Cache::open(&folder).map(Self).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    fn get(&self, key: &str) -> Option<String> {
        self.0.get(key)
    }

    fn put(&self, key: &str, result: String) -> PyResult<()> {
        let put = self.0.put(key, &result).map(drop);
        put.map_err(|error| PyOSError::new_err(error.to_string()))
    }
}
