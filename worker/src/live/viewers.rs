use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kitfleet_domain::agents::Mode;
use kitfleet_domain::agents::lanes::LaneState;
use kitfleet_domain::live::Admission;
use kitfleet_live::MAX_VIEWERS;
use kitfleet_live::messages::{Change, Driver, Refusal, Role};
use tokio::sync::{Notify, mpsc, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Refusals that wait for a viewer. Further ones would tell the viewer nothing new.
const REFUSALS: usize = 16;

/// Viewers who may only watch cannot exclude a person who may act.
const KEPT_FOR_CONTROLLERS: usize = 4;

/// Number of a viewer within its hub.
pub type ViewerId = u64;

#[derive(Default)]
pub struct Viewers {
    taken: Arc<OccupiedSlots>,
}

#[derive(Default)]
struct OccupiedSlots {
    all: Mutex<AllViewers>,
    left: Notify,
}

#[derive(Default)]
struct AllViewers {
    last: ViewerId,
    slots: BTreeMap<ViewerId, ViewerSlot>,
}

struct ViewerSlot {
    admission: Arc<Admission>,
    control: watch::Sender<Option<Control>>,
    refusals: mpsc::Sender<(Refusal, &'static str)>,
    withdrawn: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    pub driver: Driver,
    /// True when this viewer may act while no other person does.
    pub may_act: bool,
    /// Change of the driver that this viewer may make.
    pub offers: Option<Change>,
}

/// Dropping it leaves the session.
pub struct ViewerHandle {
    pub id: ViewerId,
    pub admission: Arc<Admission>,
    /// `None` before the first check.
    pub control: watch::Receiver<Option<Control>>,
    pub refusals: mpsc::Receiver<(Refusal, &'static str)>,
    /// Cancelled when the viewer may no longer watch.
    pub withdrawn: CancellationToken,
    taken: Arc<OccupiedSlots>,
}

impl Drop for ViewerHandle {
    fn drop(&mut self) {
        self.taken.all_viewers().slots.remove(&self.id);
        self.taken.left.notify_one();
    }
}

impl OccupiedSlots {
    fn all_viewers(&self) -> MutexGuard<'_, AllViewers> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Viewers {
    /// `None` when all are taken.
    pub fn take(&self, admission: Admission) -> Option<ViewerHandle> {
        let mut all_viewers = self.taken.all_viewers();
        let kept = if admission.role == Role::Controller { KEPT_FOR_CONTROLLERS } else { 0 };
        if all_viewers.slots.len() >= MAX_VIEWERS + kept {
            return None;
        }
        all_viewers.last += 1;
        let (id, admission) = (all_viewers.last, Arc::new(admission));
        let ((control, controlled), (refusals, refused)) = (watch::channel(None), mpsc::channel(REFUSALS));
        let withdrawn = CancellationToken::new();
        let slot = ViewerSlot { admission: Arc::clone(&admission), control, refusals, withdrawn: withdrawn.clone() };
        all_viewers.slots.insert(id, slot);
        drop(all_viewers);
        let taken = Arc::clone(&self.taken);
        Some(ViewerHandle { id, admission, control: controlled, refusals: refused, withdrawn, taken })
    }

    /// True when no slot is left, even for a controller.
    pub fn is_full(&self) -> bool {
        self.taken.all_viewers().slots.len() >= MAX_VIEWERS + KEPT_FOR_CONTROLLERS
    }

    pub fn is_empty(&self) -> bool {
        self.taken.all_viewers().slots.is_empty()
    }

    pub fn has(&self, id: ViewerId) -> bool {
        self.taken.all_viewers().slots.contains_key(&id)
    }

    /// Waits until a viewer has left since the last call.
    pub async fn viewer_left(&self) {
        self.taken.left.notified().await;
    }

    pub fn admissions(&self) -> Vec<Arc<Admission>> {
        self.taken.all_viewers().slots.values().map(|slot| Arc::clone(&slot.admission)).collect()
    }

    pub fn withdraw(&self, admissions: &[Uuid]) {
        for slot in self.taken.all_viewers().slots.values() {
            if admissions.contains(&slot.admission.id) {
                slot.withdrawn.cancel();
            }
        }
    }

    pub fn publish_control(&self, lane: Option<&LaneState>) {
        for slot in self.taken.all_viewers().slots.values() {
            let control = Control::of(&slot.admission, lane);
            slot.control.send_if_modified(|before| before.replace(control) != Some(control));
        }
    }

    /// Connected, and may act as of the last check. Before the first check the claim itself decides.
    pub fn may_act(&self, id: ViewerId) -> bool {
        let all_viewers = self.taken.all_viewers();
        all_viewers.slots.get(&id).is_some_and(|slot| slot.control.borrow().is_none_or(|control| control.may_act))
    }

    pub fn refuse(&self, id: ViewerId, reason: Refusal, detail: &'static str) {
        if let Some(slot) = self.taken.all_viewers().slots.get(&id) {
            // A viewer that does not read has enough refusals waiting.
            let _ = slot.refusals.try_send((reason, detail));
        }
    }
}

impl Control {
    /// True when this viewer's client has the lane.
    pub fn drives(admission: &Admission, lane: Option<&LaneState>) -> bool {
        let driver = lane.and_then(|lane| lane.driver.as_ref());
        admission.role == Role::Controller && driver.is_some() && admission.client_id.as_ref() == driver
    }

    fn of(admission: &Admission, lane: Option<&LaneState>) -> Self {
        let controls = admission.role == Role::Controller;
        let driver = match lane {
            None => Driver::Nobody,
            Some(LaneState { mode: Mode::Manual, .. }) => {
                if controls {
                    Driver::You
                } else {
                    Driver::Other
                }
            }
            Some(LaneState { mode: Mode::Pair, driver: Some(_) }) => {
                if Self::drives(admission, lane) {
                    Driver::You
                } else {
                    Driver::Other
                }
            }
            Some(_) => Driver::Agent,
        };
        let is_pair = lane.is_some_and(|lane| lane.mode == Mode::Pair);
        let offers = match driver {
            Driver::Agent => Some(Change::TakeOver),
            Driver::You => Some(Change::HandBack),
            Driver::Other | Driver::Nobody => None,
        };
        let offers = offers.filter(|_| is_pair && admission.takes_over);
        Self { driver, may_act: controls && matches!(driver, Driver::You | Driver::Nobody), offers }
    }
}
