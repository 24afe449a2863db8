//! A table of a result, for whoever speaks Arrow: pandas, Polars, DuckDB and pyarrow read it by the Arrow PyCapsule
//! interface.

use std::sync::Arc;

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use experiment::store::{Column, Table};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};

#[pyclass(name = "Table", module = "watermaster", frozen)]
pub struct PyTable {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl PyTable {
    /// Of tables with the same columns, one after another.
    pub fn new(tables: impl IntoIterator<Item = Table>) -> PyResult<Self> {
        let batches: Vec<RecordBatch> = tables.into_iter().map(batch).collect::<Result<_, _>>()?;
        let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
        Ok(Self { schema, batches })
    }
}

fn batch(table: Table) -> PyResult<RecordBatch> {
    let columns = table.columns.into_iter().map(|(name, column)| {
        let (kind, array): (_, ArrayRef) = match column {
            Column::Integer(values) => (DataType::Int64, Arc::new(Int64Array::from(values))),
            Column::Real(values) => (DataType::Float64, Arc::new(Float64Array::from(values))),
            Column::Text(values) => {
                let texts = values.iter().map(|text| text.as_ref()?.as_utf8().ok());
                (DataType::Utf8, Arc::new(texts.collect::<StringArray>()))
            }
        };
        (Field::new(name, kind, true), array)
    });
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
        .map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

#[pymethods]
impl PyTable {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The protocol lets a producer leave what it can't do.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, Arc::clone(&self.schema));
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The values of a column; a missing one is None.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for batch in &self.batches {
            let column = batch.column_by_name(name).ok_or_else(|| {
                let names = self.column_names().join(", ");
                PyKeyError::new_err(format!("there is no column {name}; there are {names}"))
            })?;
            append(&list, column)?;
        }
        Ok(list)
    }

    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))
    }

    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::to_arrow(slf)?.call_method0("to_pandas")
    }

    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("Table of {} rows: {}", self.__len__(), self.column_names().join(", "))
    }
}

fn append(list: &Bound<'_, PyList>, column: &ArrayRef) -> PyResult<()> {
    let any = column.as_any();
    if let Some(values) = any.downcast_ref::<Int64Array>() {
        values.iter().try_for_each(|value| list.append(value))
    } else if let Some(values) = any.downcast_ref::<Float64Array>() {
        values.iter().try_for_each(|value| list.append(value))
    } else if let Some(values) = any.downcast_ref::<StringArray>() {
        values.iter().try_for_each(|value| list.append(value))
    } else {
        Ok(())
    }
}
