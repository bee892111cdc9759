//! Declarations of metrics (contract: operators 3 to 7).
//!
//! A metric is a constant in the module that emits it. Its area ([`crate::area::Area`]) lists it, or the array
//! `METRICS` of its crate. The process registers all of them when it installs its recorder.

use std::fmt;
use std::marker::PhantomData;

use ::metrics::Label;

pub type Counter<const N: usize = 0> = Metric<::metrics::Counter, N>;

pub type Gauge<const N: usize = 0> = Metric<::metrics::Gauge, N>;

pub type Histogram<const N: usize = 0> = Metric<::metrics::Histogram, N>;

/// Label values come from closed sets: no account, key or address is a label.
#[derive(Debug)]
pub struct Metric<S, const N: usize> {
    name: &'static str,
    help: &'static str,
    labels: [&'static str; N],
    /// Label values of the series that exist before their first event.
    known: fn() -> Vec<[&'static str; N]>,
    is_from_database: bool,
    series: PhantomData<fn() -> S>,
}

impl<S, const N: usize> Metric<S, N> {
    /// The name begins with `service_` and ends with the unit; the help text is published.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str, labels: [&'static str; N]) -> Self {
        Self { name, help, labels, known: Vec::new, is_from_database: false, series: PhantomData }
    }

    /// Makes these series exist at zero from the start. A rate does not show the first event of a series that did not exist
    /// before.
    #[must_use]
    pub const fn starting_with(mut self, known: fn() -> Vec<[&'static str; N]>) -> Self {
        self.known = known;
        self
    }

    /// While the database cannot be read, a scrape omits such a gauge, because its last value is outdated.
    #[must_use]
    pub const fn read_from_database(mut self) -> Self {
        self.is_from_database = true;
        self
    }
}

impl<S> Metric<S, 0> {
    #[must_use]
    pub const fn starting_at_zero(self) -> Self {
        self.starting_with(|| vec![[]])
    }
}

impl<S: Series, const N: usize> Metric<S, N> {
    /// Returns the series with these label values, in the order of the labels.
    #[must_use]
    pub fn with<V: Into<::metrics::SharedString>>(&self, values: [V; N]) -> S {
        let labels = self.labels.into_iter().zip(values).map(|(label, value)| Label::new(label, value));
        S::of(self.name, labels.collect())
    }
}

impl<S: Series> Metric<S, 0> {
    #[must_use]
    pub fn series(&self) -> S {
        S::of(self.name, Vec::new())
    }
}

pub trait MetricDeclaration: fmt::Debug + Send + Sync {
    fn name(&self) -> &'static str;

    fn is_from_database(&self) -> bool;

    /// Describes the metric to the recorder, and creates the series that exist from the start.
    fn register(&self);
}

impl<S: Series, const N: usize> MetricDeclaration for Metric<S, N> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn is_from_database(&self) -> bool {
        self.is_from_database
    }

    fn register(&self) {
        S::describe(self.name, self.help);
        for values in (self.known)() {
            self.with(values).start();
        }
    }
}

pub trait Series: fmt::Debug + Sized + 'static {
    fn describe(name: &'static str, help: &'static str);

    #[must_use]
    fn of(name: &'static str, labels: Vec<Label>) -> Self;

    fn start(&self);
}

impl Series for ::metrics::Counter {
    fn describe(name: &'static str, help: &'static str) {
        ::metrics::describe_counter!(name, help);
    }

    fn of(name: &'static str, labels: Vec<Label>) -> Self {
        ::metrics::counter!(name, labels)
    }

    fn start(&self) {
        self.absolute(0);
    }
}

impl Series for ::metrics::Gauge {
    fn describe(name: &'static str, help: &'static str) {
        ::metrics::describe_gauge!(name, help);
    }

    fn of(name: &'static str, labels: Vec<Label>) -> Self {
        ::metrics::gauge!(name, labels)
    }

    fn start(&self) {
        self.set(0.0);
    }
}

impl Series for ::metrics::Histogram {
    fn describe(name: &'static str, help: &'static str) {
        ::metrics::describe_histogram!(name, help);
    }

    fn of(name: &'static str, labels: Vec<Label>) -> Self {
        ::metrics::histogram!(name, labels)
    }

    /// A histogram without events has no samples.
    fn start(&self) {}
}
