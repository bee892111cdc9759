//! Emulation of a browser: settings of the engine by the host, and of the network by the guard.

use kitfleet_host_protocol::HostCommand;
use kitfleet_types::emulation::EmulationState;
use kitfleet_types::operations::Emulate;

use super::OperationEnd;
use super::device::emulation_for_host;
use super::webkit::Webkit;

impl Webkit {
    pub(super) async fn emulate(&mut self, change: &Emulate) -> Result<EmulationState, OperationEnd> {
        let emulation = change.applied_to(&self.emulation);
        // No request passes while the host changes the rest.
        self.guard.set_offline(emulation.offline || self.emulation.offline);
        let command = HostCommand::Emulate { emulation: emulation_for_host(&emulation, self.sizes) };
        self.host.call::<()>(command).await?;
        self.guard.set_offline(emulation.offline);
        self.viewport = self.sizes.in_orientation(emulation.orientation).viewport;
        self.shared_viewport.set(self.viewport);
        let state = emulation.state();
        self.emulation = emulation;
        Ok(state)
    }
}
