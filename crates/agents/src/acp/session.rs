//! One turn of an agent: initialization, session, prompt, and the updates until the prompt is answered.

use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthMethod, CancelNotification, ClientCapabilities, Error, ErrorCode, Implementation, InitializeRequest,
    InitializeResponse, LoadSessionRequest, NewSessionRequest, NewSessionResponse, PermissionOption, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionResponse, ResumeSessionRequest, SessionId,
    SessionNotification, StopReason, ToolCallUpdate,
};
use async_trait::async_trait;
use grove_environments::settings::agent_catalog::KNOWN_AGENTS;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::acp::calls::TrackedToolCall;
use crate::acp::rpc::{RpcMessage, RpcPeer};
use crate::acp::updates::SessionUpdates;
use crate::acp::{AcpAgent, CANCEL_TIMEOUT, policy};
use crate::agent::{AgentEvent, AgentRun, CancelReason, SessionRequest};
use crate::process::OutputListener;
use crate::transcript::{ReportedEnd, Transcript, shorten_line};

/// The time that an agent has to answer `initialize`. Some agents load for long before they answer.
const INITIALIZE_TIMEOUT: Duration = Duration::from_secs(120);

pub struct AcpTurn<'a> {
    agent: &'a AcpAgent,
    run: AgentRun<'a>,
    pub transcript: Transcript,
    updates: SessionUpdates,
    /// The session that got the prompt. Updates before that do not belong to this turn.
    prompted: Option<SessionId>,
    /// The deadline of the agent after it was asked to cancel the turn.
    last_call: Option<Instant>,
}

/// The reason why a turn is over.
enum AcpTurnEnd {
    /// The output of the program ended.
    Silence,
    /// The turn was cancelled.
    GivenUp,
    Verdict(ReportedEnd),
}

impl From<ReportedEnd> for AcpTurnEnd {
    fn from(verdict: ReportedEnd) -> Self {
        AcpTurnEnd::Verdict(verdict)
    }
}

#[async_trait]
impl OutputListener for AcpTurn<'_> {
    async fn listen_to_output(&mut self, from: &mut ChildStdout, to: DuplexStream) -> Option<Duration> {
        let mut peer = RpcPeer::new(from, to);
        let over = self.prompt_agent(&mut peer).await.map_or_else(|over| over, AcpTurnEnd::Verdict);
        let rest = self.updates.end_text();
        self.send_events(rest).await;
        match over {
            AcpTurnEnd::Silence => {
                self.transcript.half_a_line = peer.unfinished_line();
                return None;
            }
            AcpTurnEnd::GivenUp => {}
            AcpTurnEnd::Verdict(verdict) => _ = self.transcript.verdict.get_or_insert(verdict),
        }
        // The agent waits for a next prompt, which never comes.
        Some(Duration::ZERO)
    }
}

impl<'a> AcpTurn<'a> {
    pub fn new(agent: &'a AcpAgent, run: AgentRun<'a>) -> Self {
        let (transcript, updates) = (Transcript::new(), SessionUpdates::new(run.before));
        Self { agent, run, transcript, updates, prompted: None, last_call: None }
    }

    async fn prompt_agent(&mut self, peer: &mut RpcPeer<'_>) -> Result<ReportedEnd, AcpTurnEnd> {
        let welcome = self.initialize_agent(peer).await?;
        let session = self.open_session(peer, &welcome).await?;
        self.send_events(vec![AgentEvent::Session(session.to_string())]).await;
        self.prompted = Some(session.clone());
        let prompt = PromptRequest::new(session, vec![self.run.prompt.into()]);
        let answer: Result<PromptResponse, Error> = self.request_and_wait(peer, "session/prompt", &prompt).await?;
        let response = answer.map_err(|error| self.end_from_error(&error, &welcome.auth_methods))?;
        if let Some(tokens) = &response.usage {
            let usage = self.updates.update_tokens(tokens);
            self.send_events(vec![usage]).await;
        }
        Ok(end_from_stop_reason(response.stop_reason))
    }

    async fn initialize_agent(&mut self, peer: &mut RpcPeer<'_>) -> Result<InitializeResponse, AcpTurnEnd> {
        // The agent uses its own tools for files and commands, in its own directory.
        let greeting = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new())
            .client_info(Implementation::new("grove", env!("CARGO_PKG_VERSION")));
        let silent = |_| ReportedEnd::Failed("it does not answer as an agent of the kind `acp` does".to_owned());
        let answer = timeout(INITIALIZE_TIMEOUT, self.request_and_wait(peer, "initialize", &greeting))
            .await
            .map_err(silent)??;
        let welcome: InitializeResponse = answer.map_err(|error| self.end_from_error(&error, &[]))?;
        if welcome.protocol_version != ProtocolVersion::V1 {
            let version = welcome.protocol_version;
            let why = format!("it speaks version {version} of the Agent Client Protocol, and version 1 is needed");
            return Err(ReportedEnd::Failed(why).into());
        }
        Ok(welcome)
    }

    /// Opens the session. The history that some agents replay is not shown.
    async fn open_session(
        &mut self,
        peer: &mut RpcPeer<'_>,
        welcome: &InitializeResponse,
    ) -> Result<SessionId, AcpTurnEnd> {
        let cwd = self.run.place.path().to_owned();
        let can = &welcome.agent_capabilities;
        let id = match &self.run.session {
            SessionRequest::Resume(id) => SessionId::new(id.as_str()),
            SessionRequest::New | SessionRequest::Named(_) => {
                let answer = self.request_and_wait(peer, "session/new", &NewSessionRequest::new(cwd)).await?;
                let new: NewSessionResponse =
                    answer.map_err(|error| self.end_from_error(&error, &welcome.auth_methods))?;
                return Ok(new.session_id);
            }
        };
        let answer: Result<Value, Error> = if can.session_capabilities.resume.is_some() {
            self.request_and_wait(peer, "session/resume", &ResumeSessionRequest::new(id.clone(), cwd)).await?
        } else if can.load_session {
            self.request_and_wait(peer, "session/load", &LoadSessionRequest::new(id.clone(), cwd)).await?
        } else {
            return Err(ReportedEnd::NoSession.into());
        };
        match answer {
            Ok(_) => Ok(id),
            Err(error) if error.code == ErrorCode::AuthRequired => {
                Err(self.end_from_error(&error, &welcome.auth_methods).into())
            }
            // Agents report an unknown session in many different ways.
            Err(_) => Err(ReportedEnd::NoSession.into()),
        }
    }

    /// Sends a request and handles all other messages until the response arrives.
    async fn request_and_wait<T: DeserializeOwned>(
        &mut self,
        peer: &mut RpcPeer<'_>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Result<T, Error>, AcpTurnEnd> {
        let asked = peer.send_request(method, params).await;
        loop {
            match self.wait_for_message(peer).await? {
                RpcMessage::Answer { id, answer } if id == asked => {
                    let odd = |error: serde_json::Error| Error::internal_error().data(error.to_string());
                    return Ok(answer.and_then(|value| serde_json::from_value(value).map_err(odd)));
                }
                RpcMessage::Answer { .. } => {}
                RpcMessage::Request { id, method, params } if method == "session/request_permission" => {
                    let response = RequestPermissionResponse::new(self.decide_permission(&params).await);
                    peer.send_response(&id, Ok(&response)).await;
                }
                RpcMessage::Request { id, .. } => {
                    peer.send_response(&id, Err::<&(), _>(Error::method_not_found())).await
                }
                RpcMessage::Notice { method, params } if method == "session/update" => {
                    self.handle_update(peer, params).await?
                }
                RpcMessage::Notice { .. } => {}
            }
        }
    }

    /// Returns the next message, unless the turn is cancelled.
    async fn wait_for_message(&mut self, peer: &mut RpcPeer<'_>) -> Result<RpcMessage, AcpTurnEnd> {
        loop {
            let last_call = self.last_call;
            tokio::select! {
                message = peer.next_message() => return message.ok_or(AcpTurnEnd::Silence),
                () = wait_for_cancel(&mut self.run.cancel), if last_call.is_none() => self.give_up(peer).await?,
                () = sleep_until(last_call.unwrap_or_else(Instant::now)), if last_call.is_some() => {
                    return Err(AcpTurnEnd::GivenUp);
                }
            }
        }
    }

    /// Asks the agent to cancel the turn.
    async fn give_up(&mut self, peer: &mut RpcPeer<'_>) -> Result<(), AcpTurnEnd> {
        let Some(session) = self.prompted.clone() else { return Err(AcpTurnEnd::GivenUp) };
        self.last_call = Some(Instant::now() + CANCEL_TIMEOUT);
        peer.send_notification("session/cancel", &CancelNotification::new(session)).await;
        Ok(())
    }

    async fn handle_update(&mut self, peer: &mut RpcPeer<'_>, params: Value) -> Result<(), AcpTurnEnd> {
        let Ok(notice) = serde_json::from_value::<SessionNotification>(params) else { return Ok(()) };
        // Updates of other sessions come from subagents and are not shown.
        if self.prompted.as_ref() != Some(&notice.session_id) {
            return Ok(());
        }
        let events = self.updates.apply_update(notice.update);
        self.send_events(events).await;
        let over = self.agent.settings.budget.is_some_and(|budget| self.transcript.usage.cost > budget);
        if over && self.transcript.verdict.is_none() {
            self.transcript.verdict = Some(ReportedEnd::OverBudget);
            self.give_up(peer).await?;
        }
        Ok(())
    }

    /// Decides on a permission request and reports the decision.
    async fn decide_permission(&mut self, params: &Value) -> RequestPermissionOutcome {
        let options = params["options"].as_array().into_iter().flatten();
        let options: Vec<PermissionOption> =
            options.filter_map(|option| serde_json::from_value(option.clone()).ok()).collect();
        if self.last_call.is_some() {
            return RequestPermissionOutcome::Cancelled;
        }
        let mut events = self.updates.end_text();
        let unknown = TrackedToolCall::new("".into());
        let call = match serde_json::from_value::<ToolCallUpdate>(params["toolCall"].clone()) {
            Ok(update) => {
                events.extend(self.updates.calls.update_call(&update));
                self.updates.calls.call_for_update(&update)
            }
            Err(_) => &unknown,
        };
        let allowed =
            policy::is_call_allowed(self.agent.settings.permissions, self.run.tools, self.run.place.path(), call);
        let (outcome, given) = policy::permission_outcome(allowed, &options);
        events.push(AgentEvent::Permission { about: call.summary_line(), given });
        self.send_events(events).await;
        outcome
    }

    async fn send_events(&mut self, events: Vec<AgentEvent>) {
        for event in events {
            self.transcript.record_event(&event);
            // The transcript keeps the event even if the receiver is gone.
            let _ = self.run.says.send(event).await;
        }
    }

    /// Converts an error of the agent to the end of the turn.
    fn end_from_error(&self, error: &Error, methods: &[AuthMethod]) -> ReportedEnd {
        if error.code == ErrorCode::AuthRequired {
            let known = KNOWN_AGENTS.iter().find(|known| Some(known.command[0]) == self.agent.program_name());
            let login = known.map(|known| known.login).or_else(|| methods.iter().find_map(AuthMethod::description));
            return ReportedEnd::Failed(format!("it is not logged in. {}", login.unwrap_or("Log in to it first.")));
        }
        let data = error.data.as_ref().unwrap_or(&Value::Null);
        let more = data.as_str().or_else(|| data["details"].as_str()).filter(|more| !error.message.contains(more));
        let why = [Some(error.message.as_str()), more].into_iter().flatten().collect::<Vec<_>>().join(": ");
        ReportedEnd::Failed(shorten_line(&why))
    }
}

/// Converts the stop reason of an answered prompt to the end of the turn.
fn end_from_stop_reason(reason: StopReason) -> ReportedEnd {
    let why = match reason {
        StopReason::EndTurn => return ReportedEnd::Well,
        StopReason::MaxTokens => "it has used up the tokens that it may use for an answer",
        StopReason::MaxTurnRequests => "it has used up the requests that it may make in one turn",
        StopReason::Refusal => "it refuses to go on with this",
        StopReason::Cancelled => "it gave the turn up",
        _ => "it stopped for a reason of its own",
    };
    ReportedEnd::Failed(why.to_owned())
}

/// Waits until the turn is cancelled.
async fn wait_for_cancel(cancel: &mut watch::Receiver<Option<CancelReason>>) {
    if cancel.wait_for(Option::is_some).await.is_err() {
        // All senders are gone, so no cancellation can come.
        std::future::pending().await
    }
}
