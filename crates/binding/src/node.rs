//! `Node` for Python: JSON in, JSON out, no logic. Every call that may wait releases the
//! interpreter.

use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

use enmasse_node::{
    CreationAnswer, Listener, ListenerKind, LoginAnswer, ManageRequest, NodeConfig, SessionName, SpaceCertificates,
    TlsFiles, WebRules,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Serialize;

use crate::errors::{invalid, node_error, not_json};

/// A running data plane.
#[pyclass(frozen, module = "enmasse._native")]
pub(crate) struct Node {
    node: enmasse_node::Node,
}

#[pymethods]
impl Node {
    #[new]
    fn new(py: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = NodeConfig::from_json(config_json).map_err(|error| node_error(&error))?;
        let node = py.detach(|| enmasse_node::Node::start(&config)).map_err(|error| node_error(&error))?;
        Ok(Self { node })
    }

    #[pyo3(signature = (kind, host, port, tls_json=None))]
    fn listen(&self, py: Python<'_>, kind: &str, host: String, port: u16, tls_json: Option<&str>) -> PyResult<u16> {
        let kind = ListenerKind::parse(kind).ok_or_else(|| {
            invalid(format!("{kind:?} is not a kind of listener: use amqp, amqps, ws, wss, mqtt or mqtts"))
        })?;
        let tls = tls_json
            .map(serde_json::from_str::<TlsFiles>)
            .transpose()
            .map_err(|error| invalid(format!("the TLS files of the listener: {error}")))?;
        let listener = Listener { kind, host, port, tls };
        py.detach(|| self.node.listen(listener)).map_err(|error| node_error(&error))
    }

    fn listen_unix(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.node.listen_unix(&path)).map_err(|error| node_error(&error))
    }

    fn apply(&self, py: Python<'_>, plan_json: &str) -> PyResult<String> {
        let plan = serde_json::from_str(plan_json).map_err(|error| invalid(format!("plan: {error}")))?;
        json(&py.detach(|| self.node.apply(&plan)).map_err(|error| node_error(&error))?)
    }

    fn show_certificates(&self, py: Python<'_>, spaces_json: &str) -> PyResult<String> {
        // Unparsed input is not part of the message: it contains keys.
        let spaces: Vec<SpaceCertificates> = serde_json::from_str(spaces_json)
            .map_err(|error| invalid(format!("certificates: {:?}", error.classify())))?;
        json(&py.detach(|| self.node.show_certificates(spaces)).map_err(|error| node_error(&error))?)
    }

    fn allow_web(&self, rules_json: &str) -> PyResult<()> {
        let rules: WebRules =
            serde_json::from_str(rules_json).map_err(|error| invalid(format!("rules for web pages: {error}")))?;
        self.node.allow_web(&rules).map_err(|error| node_error(&error))
    }

    fn cordon(&self, cordoned: bool) -> PyResult<()> {
        self.node.cordon(cordoned).map_err(|error| node_error(&error))
    }

    fn proof(&self) -> PyResult<String> {
        json(&self.node.proof().map_err(|error| node_error(&error))?)
    }

    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        json(&py.detach(|| self.node.stats()).map_err(|error| node_error(&error))?)
    }

    fn usage(&self) -> PyResult<String> {
        json(&self.node.usage())
    }

    fn journal(&self) -> PyResult<String> {
        json(&self.node.journal())
    }

    fn manage(&self, py: Python<'_>, request_json: &str) -> PyResult<(String, Vec<Option<Py<PyBytes>>>)> {
        let request: ManageRequest =
            serde_json::from_str(request_json).map_err(|error| invalid(format!("the operation: {error}")))?;
        let managed = py.detach(|| self.node.manage(&request)).map_err(|error| node_error(&error))?;
        let shown = managed.shown.iter().map(|one| one.as_ref().map(|bytes| PyBytes::new(py, bytes).unbind()));
        Ok((json(&managed)?, shown.collect()))
    }

    #[pyo3(signature = (space, after_json, max_count))]
    fn sessions(&self, py: Python<'_>, space: &str, after_json: Option<&str>, max_count: usize) -> PyResult<String> {
        let after = after_json.map(session_name).transpose()?;
        let found = py.detach(|| self.node.sessions(space, after, max_count));
        let (sessions, more) = found.map_err(|error| node_error(&error))?;
        json(&serde_json::json!({"sessions": sessions, "more": more}))
    }

    fn end_session(&self, py: Python<'_>, space: &str, name_json: &str) -> PyResult<bool> {
        let name = session_name(name_json)?;
        py.detach(|| self.node.end_session(space, name)).map_err(|error| node_error(&error))
    }

    fn connections(&self, py: Python<'_>) -> PyResult<String> {
        json(&py.detach(|| self.node.connections()).map_err(|error| node_error(&error))?)
    }

    #[pyo3(signature = (connection, address, max_count))]
    fn links(
        &self,
        py: Python<'_>,
        connection: Option<u64>,
        address: Option<&str>,
        max_count: usize,
    ) -> PyResult<String> {
        let found = py.detach(|| self.node.links(connection, address, max_count));
        let (links, more) = found.map_err(|error| node_error(&error))?;
        json(&serde_json::json!({"links": links, "more": more}))
    }

    fn close_connection(&self, py: Python<'_>, connection_id: u64) -> PyResult<bool> {
        py.detach(|| self.node.close_connection(connection_id)).map_err(|error| node_error(&error))
    }

    fn events(&self, max_count: usize) -> PyResult<Vec<String>> {
        self.node.events(max_count).iter().map(json).collect()
    }

    fn event_fd(&self) -> RawFd {
        self.node.event_fd().as_raw_fd()
    }

    fn logins(&self, max_count: usize) -> PyResult<Vec<String>> {
        self.node.logins(max_count).iter().map(json).collect()
    }

    fn login_fd(&self) -> RawFd {
        self.node.login_fd().as_raw_fd()
    }

    fn answer_login(&self, answer_json: &str) -> PyResult<()> {
        let answer: LoginAnswer =
            serde_json::from_str(answer_json).map_err(|error| invalid(format!("the answer to a login: {error}")))?;
        self.node.answer_login(answer).map_err(|error| node_error(&error))
    }

    fn creations(&self, max_count: usize) -> PyResult<Vec<String>> {
        self.node.creations(max_count).iter().map(json).collect()
    }

    fn creation_fd(&self) -> RawFd {
        self.node.creation_fd().as_raw_fd()
    }

    fn answer_creation(&self, answer_json: &str) -> PyResult<()> {
        let answer: CreationAnswer = serde_json::from_str(answer_json)
            .map_err(|error| invalid(format!("the answer to a requested address: {error}")))?;
        self.node.answer_creation(answer);
        Ok(())
    }

    fn seal_unused(&self, py: Python<'_>, uid: &str, seal: bool) -> PyResult<bool> {
        py.detach(|| self.node.seal_unused(uid, seal)).map_err(|error| node_error(&error))
    }

    fn trace(&self, connection_id: u64, on: bool) {
        self.node.trace(connection_id, on);
    }

    #[pyo3(signature = (space, user=None))]
    fn connect(&self, py: Python<'_>, space: &str, user: Option<&str>) -> PyResult<RawFd> {
        let socket = py.detach(|| self.node.connect_in_process(space, user)).map_err(|error| node_error(&error))?;
        Ok(socket.into_raw_fd())
    }

    fn stop(&self, py: Python<'_>, timeout_s: f64) -> PyResult<()> {
        let deadline = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| invalid(format!("timeout_s is {timeout_s}: give a number of seconds, 0 or more")))?;
        py.detach(|| self.node.stop(deadline));
        Ok(())
    }
}

fn session_name(json: &str) -> PyResult<SessionName> {
    serde_json::from_str(json).map_err(|error| invalid(format!("the name of a session: {error}")))
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| not_json(&error))
}
