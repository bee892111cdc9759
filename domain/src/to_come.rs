//! What is promised of areas that are still to come (contract: audit-log 11; events). A filter or a subscription that names it
//! is taken, and finds nothing yet. An area that comes takes its own from here.

use crate::area::Area;

pub(crate) const AREA: Area = Area { events: &["crypto.order.paid", "crypto.order.failed"], ..Area::named("to_come") };
