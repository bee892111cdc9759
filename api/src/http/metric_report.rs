//! Reports counters and gauges of this process to the database, for the samples of the service (contract: staff 25).

use kitfleet_domain::samples::{self, Figures, REPORTS_EVERY, WAITING_CREATES};
use kitfleet_types::log_throttle::LogThrottle;
use metrics_exporter_prometheus::PrometheusHandle;
use sqlx::PgPool;
use tokio::time::sleep;
use uuid::Uuid;

/// Reported metrics, each with the label that is kept. Series that differ in other labels are added up.
const REPORTED: [(&str, Option<&str>); 14] = [
    ("service_http_request_total", Some("status_class")),
    ("service_rate_limit_total", Some("outcome")),
    ("service_unhandled_rejection_total", None),
    ("service_db_pool_connections", Some("state")),
    (WAITING_CREATES, None),
    ("service_session_create_refusal_total", Some("reason")),
    ("service_session_operation_duration_seconds_count", None),
    ("service_challenge_total", Some("outcome")),
    ("service_browsers_hot", None),
    ("service_browser_death_total", None),
    ("service_webhook_delivery_attempt_total", Some("outcome")),
    ("service_webhook_delivery_terminal_total", Some("terminal_state")),
    ("service_email_send_total", Some("outcome")),
    ("service_agent_decompose_total", None),
];

pub async fn report(db: &PgPool, metrics: &PrometheusHandle) {
    let (process, failing) = (Uuid::now_v7(), LogThrottle::new());
    loop {
        let values = parse_scrape(&metrics.render());
        let reported = async { samples::report(&mut *db.acquire().await?, process, &values).await };
        if let Err(error) = reported.await {
            failing.log(|held_back| tracing::warn!(%error, held_back, "cannot report this process's figures"));
        }
        sleep(REPORTS_EVERY).await;
    }
}

/// Reads the text that a scraper gets.
fn parse_scrape(scrape: &str) -> Figures {
    let mut values = Figures::default();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let Some((series, value)) = line.rsplit_once(' ') else { continue };
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let Some((_, kept)) = REPORTED.iter().find(|(reported, _)| *reported == name) else { continue };
        let Some(value) = value.parse().ok().filter(|value: &f64| value.is_finite()) else { continue };
        match kept.map(|label| (label, label_value(labels, label))) {
            Some((label, Some(of_label))) => values.add_labelled(name, label, of_label, value),
            Some((_, None)) | None => values.add(name, value),
        }
    }
    values
}

/// Values of labels come from closed sets, without quotation marks and commas.
fn label_value<'a>(labels: &'a str, label: &str) -> Option<&'a str> {
    let mut pairs = labels.trim_end_matches('}').split(',');
    pairs.find_map(|pair| pair.strip_prefix(label)?.strip_prefix("=\"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_that_differ_in_other_labels_add_up() {
        let scrape = "# TYPE service_http_request_total counter\n\
                      service_http_request_total{method=\"GET\",route=\"/v1/sessions/{id}\",status_class=\"2xx\"} 3\n\
                      service_http_request_total{method=\"POST\",route=\"/v1/sessions\",status_class=\"2xx\"} 4\n\
                      service_http_request_total{method=\"POST\",route=\"/v1/sessions\",status_class=\"5xx\"} 1\n\
                      service_session_creates_waiting 2\n\
                      service_build_info{version=\"1\"} 1\n";
        let values = parse_scrape(scrape);
        assert_eq!(values.get("service_http_request_total{status_class=\"2xx\"}"), Some(7.0));
        assert_eq!(values.get("service_http_request_total{status_class=\"5xx\"}"), Some(1.0));
        assert_eq!(values.get("service_session_creates_waiting"), Some(2.0));
        assert_eq!(values.len(), 3);
    }

    #[test]
    fn label_is_matched_by_its_full_name() {
        assert_eq!(label_value("terminal_state=\"dlq\",state=\"idle\"}", "state"), Some("idle"));
        assert_eq!(label_value("terminal_state=\"dlq\"}", "state"), None);
    }
}
