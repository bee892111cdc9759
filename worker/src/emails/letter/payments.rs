//! Texts of the mails about card payments.

use kitfleet_domain::emails::{Attempt, Template};
use kitfleet_types::timestamp::Timestamp;
use serde::Deserialize as _;

/// Currencies without a smaller unit.
const WITHOUT_CENTS: [&str; 16] =
    ["bif", "clp", "djf", "gnf", "jpy", "kmf", "krw", "mga", "pyg", "rwf", "ugx", "vnd", "vuv", "xaf", "xof", "xpf"];

pub(super) fn paragraphs(attempt: &Attempt) -> Vec<String> {
    let amount = amount(attempt).map(|amount| format!(" of {amount}")).unwrap_or_default();
    let invoices = "Your invoices and your card are in the billing portal.";
    match attempt.template {
        Template::PaymentReceipt => {
            vec![format!("We have received your payment{amount} for your Kitfleet subscription."), invoices.to_owned()]
        }
        Template::PaymentFailed => vec![
            format!("A payment{amount} for your Kitfleet subscription could not be collected."),
            "Your card may have expired, or your bank may have declined it. The payment will be retried. If it keeps failing, \
             the subscription and your tier end. You can add another card in the billing portal."
                .to_owned(),
        ],
        _ => {
            let when = day(attempt).map_or_else(|| "in 7 days".to_owned(), |day| format!("in 7 days, on {day}"));
            vec![
                format!("Your Kitfleet subscription renews {when}, and a payment{amount} will be collected."),
                "To change or cancel it, visit the billing portal before then.".to_owned(),
            ]
        }
    }
}

fn amount(attempt: &Attempt) -> Option<String> {
    let (units, currency) = (attempt.details["amount"].as_u64()?, attempt.details["currency"].as_str()?);
    let code = currency.to_ascii_uppercase();
    if code.len() != 3 || !code.bytes().all(|letter| letter.is_ascii_uppercase()) {
        return None;
    }
    let whole = WITHOUT_CENTS.contains(&currency);
    Some(if whole { format!("{units} {code}") } else { format!("{}.{:02} {code}", units / 100, units % 100) })
}

fn day(attempt: &Attempt) -> Option<String> {
    let at = Timestamp::deserialize(&attempt.details["due_at"]).ok()?;
    Some(at.0.format("%-d %B %Y").to_string())
}
