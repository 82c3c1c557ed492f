//! One turn of an agent: the greeting, the session, the prompt, and what is said until it is answered.

use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    AuthMethod, CancelNotification, ClientCapabilities, Error, ErrorCode, Implementation, InitializeRequest,
    InitializeResponse, LoadSessionRequest, NewSessionRequest, NewSessionResponse, PermissionOption, PromptRequest,
    PromptResponse, RequestPermissionOutcome, RequestPermissionResponse, ResumeSessionRequest, SessionId,
    SessionNotification, StopReason, ToolCallUpdate,
};
use async_trait::async_trait;
use grove_environments::settings::agent_catalog::KNOWN;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::process::ChildStdout;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use crate::acp::calls::Call;
use crate::acp::rpc::{Message, Peer};
use crate::acp::updates::Updates;
use crate::acp::{AcpAgent, COURTESY, policy};
use crate::agent::{AgentEvent, Cancel, Run, SessionWish};
use crate::process::Listen;
use crate::transcript::{Heard, Verdict, shortened};

/// How long an agent may take to answer our greeting. Some load for long before they do.
const GREETING: Duration = Duration::from_secs(120);

pub struct Talk<'a> {
    agent: &'a AcpAgent,
    run: Run<'a>,
    pub heard: Heard,
    updates: Updates,
    /// The session in which the prompt was said. What is heard before is none of this turn.
    prompted: Option<SessionId>,
    /// It was asked to give the turn up, and has until then.
    last_call: Option<Instant>,
}

/// Why a turn is over.
enum Over {
    /// There is nothing more to read.
    Silence,
    /// It was given up.
    GivenUp,
    Verdict(Verdict),
}

impl From<Verdict> for Over {
    fn from(verdict: Verdict) -> Self {
        Over::Verdict(verdict)
    }
}

#[async_trait]
impl Listen for Talk<'_> {
    async fn listen(&mut self, from: &mut ChildStdout, to: DuplexStream) -> Option<Duration> {
        let mut peer = Peer::new(from, to);
        let over = self.turn(&mut peer).await.map_or_else(|over| over, Over::Verdict);
        let rest = self.updates.end_text();
        self.say(rest).await;
        match over {
            Over::Silence => {
                self.heard.half_a_line = peer.rest();
                return None;
            }
            Over::GivenUp => {}
            Over::Verdict(verdict) => _ = self.heard.verdict.get_or_insert(verdict),
        }
        // It waits for the next prompt, which does not come.
        Some(Duration::ZERO)
    }
}

impl<'a> Talk<'a> {
    pub fn new(agent: &'a AcpAgent, run: Run<'a>) -> Self {
        let (heard, updates) = (Heard::new(), Updates::new(run.before));
        Self { agent, run, heard, updates, prompted: None, last_call: None }
    }

    async fn turn(&mut self, peer: &mut Peer<'_>) -> Result<Verdict, Over> {
        let welcome = self.greet(peer).await?;
        let session = self.session(peer, &welcome).await?;
        self.say(vec![AgentEvent::Session(session.to_string())]).await;
        self.prompted = Some(session.clone());
        let prompt = PromptRequest::new(session, vec![self.run.prompt.into()]);
        let answer: Result<PromptResponse, Error> = self.ask(peer, "session/prompt", &prompt).await?;
        let response = answer.map_err(|error| self.failed(&error, &welcome.auth_methods))?;
        if let Some(tokens) = &response.usage {
            let usage = self.updates.tokens(tokens);
            self.say(vec![usage]).await;
        }
        Ok(verdict(response.stop_reason))
    }

    async fn greet(&mut self, peer: &mut Peer<'_>) -> Result<InitializeResponse, Over> {
        // It has tools of its own for files and commands, in its own directory.
        let greeting = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::new())
            .client_info(Implementation::new("grove", env!("CARGO_PKG_VERSION")));
        let silent = |_| Verdict::Failed("it does not answer as an agent of the kind `acp` does".to_owned());
        let answer = timeout(GREETING, self.ask(peer, "initialize", &greeting)).await.map_err(silent)??;
        let welcome: InitializeResponse = answer.map_err(|error| self.failed(&error, &[]))?;
        if welcome.protocol_version != ProtocolVersion::V1 {
            let version = welcome.protocol_version;
            let why = format!("it speaks version {version} of the Agent Client Protocol, and version 1 is needed");
            return Err(Verdict::Failed(why).into());
        }
        Ok(welcome)
    }

    /// Gets into the session. None of the history that some agents tell is shown.
    async fn session(&mut self, peer: &mut Peer<'_>, welcome: &InitializeResponse) -> Result<SessionId, Over> {
        let cwd = self.run.place.path().to_owned();
        let can = &welcome.agent_capabilities;
        let id = match &self.run.session {
            SessionWish::Resume(id) => SessionId::new(id.as_str()),
            SessionWish::New | SessionWish::Named(_) => {
                let answer = self.ask(peer, "session/new", &NewSessionRequest::new(cwd)).await?;
                let new: NewSessionResponse = answer.map_err(|error| self.failed(&error, &welcome.auth_methods))?;
                return Ok(new.session_id);
            }
        };
        let answer: Result<Value, Error> = if can.session_capabilities.resume.is_some() {
            self.ask(peer, "session/resume", &ResumeSessionRequest::new(id.clone(), cwd)).await?
        } else if can.load_session {
            self.ask(peer, "session/load", &LoadSessionRequest::new(id.clone(), cwd)).await?
        } else {
            return Err(Verdict::NoSession.into());
        };
        match answer {
            Ok(_) => Ok(id),
            Err(error) if error.code == ErrorCode::AuthRequired => {
                Err(self.failed(&error, &welcome.auth_methods).into())
            }
            // Agents have many words for a session that they do not know.
            Err(_) => Err(Verdict::NoSession.into()),
        }
    }

    /// Asks for something, and hears what else is said until it is answered.
    async fn ask<T: DeserializeOwned>(
        &mut self,
        peer: &mut Peer<'_>,
        method: &str,
        params: &impl Serialize,
    ) -> Result<Result<T, Error>, Over> {
        let asked = peer.request(method, params).await;
        loop {
            match self.next(peer).await? {
                Message::Answer { id, answer } if id == asked => {
                    let odd = |error: serde_json::Error| Error::internal_error().data(error.to_string());
                    return Ok(answer.and_then(|value| serde_json::from_value(value).map_err(odd)));
                }
                Message::Answer { .. } => {}
                Message::Request { id, method, params } if method == "session/request_permission" => {
                    let response = RequestPermissionResponse::new(self.decide(&params).await);
                    peer.answer(&id, Ok(&response)).await;
                }
                Message::Request { id, .. } => peer.answer(&id, Err::<&(), _>(Error::method_not_found())).await,
                Message::Notice { method, params } if method == "session/update" => self.update(peer, params).await?,
                Message::Notice { .. } => {}
            }
        }
    }

    /// The next message, unless the turn is given up.
    async fn next(&mut self, peer: &mut Peer<'_>) -> Result<Message, Over> {
        loop {
            let last_call = self.last_call;
            tokio::select! {
                message = peer.next() => return message.ok_or(Over::Silence),
                () = wanted(&mut self.run.cancel), if last_call.is_none() => self.give_up(peer).await?,
                () = sleep_until(last_call.unwrap_or_else(Instant::now)), if last_call.is_some() => {
                    return Err(Over::GivenUp);
                }
            }
        }
    }

    /// Asks the agent to give the turn up.
    async fn give_up(&mut self, peer: &mut Peer<'_>) -> Result<(), Over> {
        let Some(session) = self.prompted.clone() else { return Err(Over::GivenUp) };
        self.last_call = Some(Instant::now() + COURTESY);
        peer.notify("session/cancel", &CancelNotification::new(session)).await;
        Ok(())
    }

    async fn update(&mut self, peer: &mut Peer<'_>, params: Value) -> Result<(), Over> {
        let Ok(notice) = serde_json::from_value::<SessionNotification>(params) else { return Ok(()) };
        // What helpers of the agent say in their sessions is between them.
        if self.prompted.as_ref() != Some(&notice.session_id) {
            return Ok(());
        }
        let events = self.updates.take(notice.update);
        self.say(events).await;
        let over = self.agent.settings.budget.is_some_and(|budget| self.heard.usage.cost > budget);
        if over && self.heard.verdict.is_none() {
            self.heard.verdict = Some(Verdict::OverBudget);
            self.give_up(peer).await?;
        }
        Ok(())
    }

    /// Gives leave or not, and says so.
    async fn decide(&mut self, params: &Value) -> RequestPermissionOutcome {
        let options = params["options"].as_array().into_iter().flatten();
        let options: Vec<PermissionOption> =
            options.filter_map(|option| serde_json::from_value(option.clone()).ok()).collect();
        if self.last_call.is_some() {
            return RequestPermissionOutcome::Cancelled;
        }
        let mut events = self.updates.end_text();
        let unknown = Call::new("".into());
        let call = match serde_json::from_value::<ToolCallUpdate>(params["toolCall"].clone()) {
            Ok(update) => {
                events.extend(self.updates.calls.update(&update));
                self.updates.calls.learn(&update)
            }
            Err(_) => &unknown,
        };
        let allowed = policy::allows(self.agent.settings.permissions, self.run.tools, self.run.place.path(), call);
        let (outcome, given) = policy::outcome(allowed, &options);
        events.push(AgentEvent::Permission { about: call.words(), given });
        self.say(events).await;
        outcome
    }

    async fn say(&mut self, events: Vec<AgentEvent>) {
        for event in events {
            self.heard.note(&event);
            // What was heard is kept here anyway.
            let _ = self.run.says.send(event).await;
        }
    }

    /// What an error means for the turn.
    fn failed(&self, error: &Error, methods: &[AuthMethod]) -> Verdict {
        if error.code == ErrorCode::AuthRequired {
            let known = KNOWN.iter().find(|known| Some(known.command[0]) == self.agent.program());
            let login = known.map(|known| known.login).or_else(|| methods.iter().find_map(AuthMethod::description));
            return Verdict::Failed(format!("it is not logged in. {}", login.unwrap_or("Log in to it first.")));
        }
        let data = error.data.as_ref().unwrap_or(&Value::Null);
        let more = data.as_str().or_else(|| data["details"].as_str()).filter(|more| !error.message.contains(more));
        let why = [Some(error.message.as_str()), more].into_iter().flatten().collect::<Vec<_>>().join(": ");
        Verdict::Failed(shortened(&why))
    }
}

/// How a turn went that was answered.
fn verdict(reason: StopReason) -> Verdict {
    let why = match reason {
        StopReason::EndTurn => return Verdict::Well,
        StopReason::MaxTokens => "it has used up the tokens that it may use for an answer",
        StopReason::MaxTurnRequests => "it has used up the requests that it may make in one turn",
        StopReason::Refusal => "it refuses to go on with this",
        StopReason::Cancelled => "it gave the turn up",
        _ => "it stopped for a reason of its own",
    };
    Verdict::Failed(why.to_owned())
}

/// Waits until somebody wants the turn to end.
async fn wanted(cancel: &mut watch::Receiver<Option<Cancel>>) {
    if cancel.wait_for(Option::is_some).await.is_err() {
        // Nobody is left who could.
        std::future::pending().await
    }
}
