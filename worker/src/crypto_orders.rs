//! Crypto orders whose notifications did not arrive, and ended billing periods (contract: billing 41, 42).

use kitfleet_domain::billing::ipn::PaymentNotice;
use kitfleet_domain::billing::orders::{self, StaleOrder};
use kitfleet_jobs::billing::crypto;
use kitfleet_payments::CryptoProcessor;
use serde::Serialize;
use sqlx::PgPool;

/// Read at once.
const BATCH: i64 = 100;
/// Consecutive requests without an answer, after which a sweep stops asking the processor.
const MAX_SILENCES: u32 = 3;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct SweepCounts {
    /// Their notification had not arrived.
    pub paid: u64,
    pub failed: u64,
    /// The next sweep asks again.
    pub unanswered: u64,
    /// Their period has ended.
    pub lapsed: u64,
}

/// Ends lapsed periods first. Then asks the processor about each order that has waited longer than the configured time, and
/// ends it.
pub async fn sweep(db: &PgPool, processor: &CryptoProcessor) -> sqlx::Result<SweepCounts> {
    let mut swept = SweepCounts::default();
    while crypto::expire_order(&mut *db.acquire().await?).await? {
        swept.lapsed += 1;
    }
    let (age, mut after, mut silent) = (processor.config().sweep_after, None, 0);
    loop {
        let stale = orders::stale(&mut *db.acquire().await?, age, after, BATCH).await?;
        let Some(last) = stale.last() else { return Ok(swept) };
        after = Some(last.id);
        for order in stale {
            match processor.look_up(&order.payment_id).await {
                Ok(notice) => end(db, processor, order, notice, &mut swept).await?,
                Err(error) => {
                    tracing::warn!(%error, order = %order.id, "cannot read an order's status from the crypto processor");
                    swept.unanswered += 1;
                    silent = if error.is_no_response() { silent + 1 } else { 0 };
                    if silent == MAX_SILENCES {
                        return Ok(swept);
                    }
                }
            }
        }
    }
}

/// The caller holds no connection during the request to the processor.
async fn end(
    db: &PgPool,
    processor: &CryptoProcessor,
    order: StaleOrder,
    found: Option<PaymentNotice>,
    swept: &mut SweepCounts,
) -> sqlx::Result<()> {
    let mut conn = db.acquire().await?;
    if let Some(notice) = found.as_ref().filter(|notice| notice.payment_status == "finished") {
        let notice = PaymentNotice { order_id: Some(order.id), ..notice.clone() };
        crypto::take(&mut conn, &notice, processor.config().period).await?;
    }
    if crypto::give_up(&mut conn, order.id, found.as_ref()).await? {
        swept.failed += 1;
    } else {
        swept.paid += 1;
    }
    Ok(())
}
