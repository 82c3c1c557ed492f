//! `remote_agent_isolation_environments` and its links

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use grove_model::{
    AdoptedFrom, BranchName, CodebaseId, CommitSha, Environment, EnvironmentId, EnvironmentMetadata, InitScript,
    InitStatus, Moment, Nonce, ProcessOwner, PullRequestInfo, Status, WorkKey, WorkKind,
};
use sqlx::any::AnyRow;

use crate::codebases::path_to_text;
use crate::row::RowReader;
use crate::{Store, StoreError};

macro_rules! columns {
    () => {
        "id, codebase_id, workflow_type, workflow_id, provider, working_path, branch_name, status, error, base_ref, \
         base_sha, head_sha, created_by_platform, created_by_user, created_at, last_activity_at, size_bytes, size_at, metadata, node, nonce, owner, lease_until"
    };
}
macro_rules! select {
    ($rest:literal) => {
        concat!("SELECT ", columns!(), " FROM remote_agent_isolation_environments ", $rest)
    };
}

const INSERT_CREATING_ENVIRONMENT: &str = concat!(
    "INSERT INTO remote_agent_isolation_environments (",
    columns!(),
    ", updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'creating', NULL, NULL, NULL, NULL, $8, $9, $10, $10, NULL, NULL, '{}', $11, ",
    "$12, $13, $14, $10) ON CONFLICT DO NOTHING"
);
const INSERT_ADOPTED_ENVIRONMENT: &str = concat!(
    "INSERT INTO remote_agent_isolation_environments (",
    columns!(),
    ", updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'active', NULL, $15, $16, $17, $8, $9, $10, $10, NULL, NULL, $18, $11, ",
    "$12, $13, $14, $10) ON CONFLICT DO NOTHING"
);
/// Finds the environment that holds the work, or else the branch, or else the path.
const CONFLICTING_ENVIRONMENT: &str = select!(
    "WHERE status <> 'destroyed' AND ((codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3) \
        OR (codebase_id = $1 AND branch_name = $4) OR (node = $5 AND working_path = $6)) \
     ORDER BY CASE WHEN workflow_type = $2 AND workflow_id = $3 THEN 0 WHEN branch_name = $4 THEN 1 ELSE 2 END LIMIT 1"
);
const ACTIVATE_ENVIRONMENT: &str = "UPDATE remote_agent_isolation_environments \
     SET status = 'active', base_ref = $3, base_sha = $4, head_sha = $5, updated_at = $6, last_activity_at = $6, \
       metadata = COALESCE($7, metadata) \
     WHERE id = $1 AND nonce = $2 AND status = 'creating'";
const ABANDON_ENVIRONMENT: &str = "UPDATE remote_agent_isolation_environments SET status = 'destroyed', error = $3, updated_at = $4 \
     WHERE id = $1 AND nonce = $2 AND status = 'creating'";
const UPDATE_ENVIRONMENT_STATUS: &str = "UPDATE remote_agent_isolation_environments SET status = $3, error = $4, updated_at = $5 \
     WHERE id = $1 AND status = $2";
const RENEW_ENVIRONMENT_LEASE: &str = "UPDATE remote_agent_isolation_environments SET lease_until = $3 \
     WHERE id = $1 AND owner = $2 AND status = 'creating'";
const TAKE_OVER_ENVIRONMENT: &str = "UPDATE remote_agent_isolation_environments SET owner = $3, lease_until = $4 \
     WHERE id = $1 AND owner = $2 AND status IN ('creating', 'removing')";
const UPDATE_ENVIRONMENT_SIZE: &str =
    "UPDATE remote_agent_isolation_environments SET size_bytes = $2, size_at = $3 WHERE id = $1";
const SELECT_ENVIRONMENT_METADATA: &str = "SELECT id, metadata FROM remote_agent_isolation_environments WHERE id = $1";
const UPDATE_ENVIRONMENT_METADATA: &str = "UPDATE remote_agent_isolation_environments SET metadata = $3, updated_at = $4, \
       status = COALESCE($5, status), error = CASE WHEN CAST($5 AS TEXT) IS NULL THEN error ELSE $6 END \
     WHERE id = $1 AND metadata = $2";
const UPDATE_ENVIRONMENT_BRANCH: &str = "UPDATE remote_agent_isolation_environments SET branch_name = $3, updated_at = $4 \
     WHERE id = $1 AND branch_name = $2 AND status <> 'destroyed' AND NOT EXISTS (SELECT 1 \
       FROM remote_agent_isolation_environments other WHERE other.id <> $1 AND other.status <> 'destroyed' \
       AND other.branch_name = $3 AND other.codebase_id = remote_agent_isolation_environments.codebase_id)";
const ENVIRONMENT_BY_ID: &str = select!("WHERE id = $1");
const LIVE_ENVIRONMENTS: &str = select!("WHERE codebase_id = $1 AND status <> 'destroyed' ORDER BY created_at, id");
const ALL_ENVIRONMENTS: &str = select!("WHERE codebase_id = $1 ORDER BY created_at, id");
const LINKS_OF_CODEBASE: &str = "SELECT l.environment_id AS id, l.kind AS kind, l.number AS number FROM grove_environment_links l \
     JOIN remote_agent_isolation_environments e ON e.id = l.environment_id WHERE e.codebase_id = $1 ORDER BY l.number";
const INSERT_ENVIRONMENT_LINK: &str =
    "INSERT INTO grove_environment_links (environment_id, kind, number) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const BRANCHES_OF_OTHERS: &str = "SELECT DISTINCT branch_name FROM remote_agent_isolation_environments \
     WHERE codebase_id = $1 AND NOT (workflow_type = $2 AND workflow_id = $3)";

#[derive(Clone, Debug)]
pub struct NewEnvironment {
    pub id: EnvironmentId,
    pub codebase_id: CodebaseId,
    pub work: WorkKey,
    pub provider: &'static str,
    pub path: PathBuf,
    pub branch: BranchName,
    pub created_by_platform: Option<String>,
    pub created_by_user: Option<String>,
    pub node: String,
    pub nonce: Nonce,
    pub owner: ProcessOwner,
    pub lease_until: Moment,
}

/// The known facts about a worktree that is adopted.
#[derive(Clone, Debug)]
pub struct AdoptedWorktree {
    pub from: AdoptedFrom,
    pub base: Option<(String, CommitSha)>,
    pub head: Option<CommitSha>,
    /// It comes from an older kind of record.
    pub migrated: bool,
}

/// The outcome of a claim to create an environment.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// The caller may create it.
    Won(Environment),
    /// This environment already has the work, the branch or the path.
    Held(Environment),
}

impl Store {
    /// Inserts the `creating` row, which is also the lock.
    pub async fn claim_environment(&self, new: &NewEnvironment) -> Result<ClaimOutcome, StoreError> {
        self.retry_while_disconnected(|| self.insert_environment(INSERT_CREATING_ENVIRONMENT, new, None)).await
    }

    /// Inserts a row at `active` for a worktree that Grovekeeper did not create.
    pub async fn adopt_environment(
        &self,
        new: &NewEnvironment,
        adopted: &AdoptedWorktree,
    ) -> Result<ClaimOutcome, StoreError> {
        self.retry_while_disconnected(|| self.insert_environment(INSERT_ADOPTED_ENVIRONMENT, new, Some(adopted))).await
    }

    async fn insert_environment(
        &self,
        statement: &'static str,
        new: &NewEnvironment,
        adopted: Option<&AdoptedWorktree>,
    ) -> Result<ClaimOutcome, StoreError> {
        // The holder may disappear between a refused insert and the query for the holder.
        for _ in 0..100 {
            let mut query = sqlx::query(statement)
                .bind(new.id.to_string())
                .bind(new.codebase_id.to_string())
                .bind(new.work.work_kind().as_str())
                .bind(new.work.id().to_owned())
                .bind(new.provider)
                .bind(path_to_text(&new.path))
                .bind(new.branch.as_str().to_owned())
                .bind(new.created_by_platform.clone())
                .bind(new.created_by_user.clone())
                .bind(Moment::now().to_string())
                .bind(new.node.clone())
                .bind(new.nonce.to_string())
                .bind(new.owner.to_string())
                .bind(new.lease_until.to_string());
            if let Some(adopted) = adopted {
                let metadata = EnvironmentMetadata {
                    adopted_from: Some(adopted.from),
                    migrated_at: adopted.migrated.then(Moment::now),
                    ..EnvironmentMetadata::default()
                };
                let metadata =
                    serde_json::to_string(&metadata).map_err(|error| StoreError::Other(error.to_string()))?;
                query = query
                    .bind(adopted.base.as_ref().map(|(name, _)| name.clone()))
                    .bind(adopted.base.as_ref().map(|(_, sha)| sha.to_string()))
                    .bind(adopted.head.as_ref().map(ToString::to_string))
                    .bind(metadata);
            }
            query.execute(&self.pool).await?;
            let holder = sqlx::query(CONFLICTING_ENVIRONMENT)
                .bind(new.codebase_id.to_string())
                .bind(new.work.work_kind().as_str())
                .bind(new.work.id().to_owned())
                .bind(new.branch.as_str().to_owned())
                .bind(new.node.clone())
                .bind(path_to_text(&new.path))
                .fetch_optional(&self.pool)
                .await?;
            if let Some(row) = holder {
                // A repeated call finds its own row.
                let holder = read_environment(&row)?;
                return Ok(if holder.id == new.id { ClaimOutcome::Won(holder) } else { ClaimOutcome::Held(holder) });
            }
        }
        Err(StoreError::Busy)
    }

    /// Changes `creating` to `active`; only the owner of the nonce can do so.
    pub async fn activate_environment(
        &self,
        id: EnvironmentId,
        nonce: Nonce,
        base: Option<(&str, &CommitSha)>,
        head: &CommitSha,
        init_script: Option<InitScript>,
    ) -> Result<Environment, StoreError> {
        // A new environment has no other metadata.
        let metadata = init_script.map(|init| {
            serde_json::to_string(&EnvironmentMetadata { init_script: Some(init), ..EnvironmentMetadata::default() })
        });
        let metadata = metadata.transpose().map_err(|error| StoreError::Other(error.to_string()))?;
        self.retry_while_disconnected(|| async {
            let updated = sqlx::query(ACTIVATE_ENVIRONMENT)
                .bind(id.to_string())
                .bind(nonce.to_string())
                .bind(base.map(|(name, _)| name.to_owned()))
                .bind(base.map(|(_, sha)| sha.to_string()))
                .bind(head.to_string())
                .bind(Moment::now().to_string())
                .bind(metadata.clone())
                .execute(&self.pool)
                .await?;
            let now = self.try_environment(id).await?;
            match now {
                Some(environment) if environment.status == Status::Active => Ok(environment),
                _ if updated.rows_affected() == 0 => Err(StoreError::Moved { expected: "being created" }),
                _ => Err(StoreError::Moved { expected: "active" }),
            }
        })
        .await
    }

    /// Renews the lease: the owner is still at work.
    pub async fn renew_environment_lease(
        &self,
        id: EnvironmentId,
        owner: &ProcessOwner,
        until: Moment,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(RENEW_ENVIRONMENT_LEASE)
                .bind(id.to_string())
                .bind(owner.to_string())
                .bind(until.to_string());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Takes over an unfinished creation, removal or undo from an owner that is gone. Of several processes
    /// that try, one succeeds.
    pub async fn take_over(
        &self,
        id: EnvironmentId,
        from: &ProcessOwner,
        to: &ProcessOwner,
        until: Moment,
    ) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query(TAKE_OVER_ENVIRONMENT).bind(id.to_string()).bind(from.to_string());
            let taken = query.bind(to.to_string()).bind(until.to_string()).execute(&self.pool).await?;
            if taken.rows_affected() == 1 {
                return Ok(true);
            }
            // A repeated call finds its own work done, and does not mistake the work of another task of this
            // process for it.
            let now = self.try_environment(id).await?;
            Ok(now.is_some_and(|e| e.owner.as_ref() == Some(to) && e.lease_until == Some(until)))
        })
        .await
    }

    /// Changes `creating` to `destroyed` and records the reason.
    pub async fn abandon_environment(&self, id: EnvironmentId, nonce: Nonce, error: &str) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            sqlx::query(ABANDON_ENVIRONMENT)
                .bind(id.to_string())
                .bind(nonce.to_string())
                .bind(error.to_owned())
                .bind(Moment::now().to_string())
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    /// Moves an environment along the life cycle, or reports that its status has changed meanwhile.
    pub async fn advance_status(
        &self,
        id: EnvironmentId,
        from: Status,
        to: Status,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        if !from.may_become(to) {
            return Err(StoreError::Other(format!("an environment that is {from} cannot become {to}")));
        }
        self.retry_while_disconnected(|| async {
            let updated = sqlx::query(UPDATE_ENVIRONMENT_STATUS)
                .bind(id.to_string())
                .bind(from.as_str())
                .bind(to.as_str())
                .bind(error.map(str::to_owned))
                .bind(Moment::now().to_string())
                .execute(&self.pool)
                .await?;
            if updated.rows_affected() == 1 {
                return Ok(());
            }
            // A repeated call finds its own work done.
            match self.try_environment(id).await? {
                Some(environment) if environment.status == to => Ok(()),
                _ => Err(StoreError::Moved { expected: from.as_str() }),
            }
        })
        .await
    }

    /// Stores the sizes measured at `at`; `None` where the measurement gave no figure.
    pub async fn keep_sizes(&self, sizes: &HashMap<EnvironmentId, Option<i64>>, at: Moment) -> Result<(), StoreError> {
        // All writers use one order, so that two concurrent writers do not wait for each other.
        let sizes: BTreeMap<String, Option<i64>> = sizes.iter().map(|(id, size)| (id.to_string(), *size)).collect();
        self.retry_while_disconnected(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            for (id, size) in &sizes {
                let keep = sqlx::query(UPDATE_ENVIRONMENT_SIZE).bind(id.clone()).bind(*size).bind(at.to_string());
                keep.execute(&mut *transaction).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub async fn find_environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        self.retry_while_disconnected(|| self.try_environment(id)).await
    }

    pub(crate) async fn try_environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        let row = sqlx::query(ENVIRONMENT_BY_ID).bind(id.to_string()).fetch_optional(&self.pool).await?;
        self.with_links(row).await
    }

    /// Returns all environments of a codebase, oldest first; `all` includes the destroyed ones.
    pub async fn list_environments(&self, codebase: CodebaseId, all: bool) -> Result<Vec<Environment>, StoreError> {
        self.retry_while_disconnected(|| async {
            let rows = sqlx::query(if all { ALL_ENVIRONMENTS } else { LIVE_ENVIRONMENTS })
                .bind(codebase.to_string())
                .fetch_all(&self.pool)
                .await?;
            let mut environments = rows.iter().map(read_environment).collect::<Result<Vec<_>, _>>()?;
            self.add_links(codebase, &mut environments).await?;
            Ok(environments)
        })
        .await
    }

    /// Returns the branches that other works have, or ever had.
    pub async fn branches_of_others(&self, codebase: CodebaseId, work: &WorkKey) -> Result<Vec<String>, StoreError> {
        self.retry_while_disconnected(|| async {
            let query = sqlx::query_scalar(BRANCHES_OF_OTHERS);
            let query = query.bind(codebase.to_string()).bind(work.work_kind().as_str()).bind(work.id().to_owned());
            Ok(query.fetch_all(&self.pool).await?)
        })
        .await
    }

    /// Records the new name of an environment's branch. Returns `false` if another environment has a branch
    /// of that name, or if the record has changed meanwhile.
    pub async fn follow_branch(
        &self,
        id: EnvironmentId,
        from: &BranchName,
        to: &BranchName,
    ) -> Result<bool, StoreError> {
        self.retry_while_disconnected(|| async {
            let follow =
                sqlx::query(UPDATE_ENVIRONMENT_BRANCH).bind(id.to_string()).bind(from.to_string()).bind(to.to_string());
            Ok(follow.bind(Moment::now().to_string()).execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// Links an environment with an issue or a pull request.
    pub async fn link_environment(&self, id: EnvironmentId, kind: WorkKind, number: u64) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            let number =
                i64::try_from(number).map_err(|_| StoreError::Other(format!("#{number} is no number of an {kind}")))?;
            sqlx::query(INSERT_ENVIRONMENT_LINK)
                .bind(id.to_string())
                .bind(kind.as_str())
                .bind(number)
                .execute(&self.pool)
                .await?;
            Ok(())
        })
        .await
    }

    /// Stores the known facts about an environment's pull request, and links the environment with it.
    pub async fn keep_pull_request(&self, id: EnvironmentId, pr: &PullRequestInfo) -> Result<(), StoreError> {
        self.link_environment(id, WorkKind::Pr, pr.number).await?;
        let change = |metadata: &EnvironmentMetadata| {
            let is_news = !metadata.pr.as_ref().is_some_and(|known| pr.is_outdated_by(known));
            is_news.then(|| EnvironmentMetadata { pr: Some(pr.clone()), ..metadata.clone() })
        };
        self.change_metadata(id, change).await
    }

    /// Gives an environment a title, unless it has one.
    pub async fn title_environment(&self, id: EnvironmentId, title: &str) -> Result<(), StoreError> {
        let change = |metadata: &EnvironmentMetadata| {
            let is_first = metadata.title.is_none();
            is_first.then(|| EnvironmentMetadata { title: Some(title.to_owned()), ..metadata.clone() })
        };
        self.change_metadata(id, change).await
    }

    /// Records that the init script of an environment runs.
    pub async fn begin_init(&self, id: EnvironmentId) -> Result<(), StoreError> {
        let init = InitScript { ran: true, status: Some(InitStatus::Running), error: None };
        self.write_init(id, Status::Initializing, init).await
    }

    /// Records the end of the init script of an environment; `error` if it failed.
    pub async fn end_init(&self, id: EnvironmentId, error: Option<&str>) -> Result<(), StoreError> {
        let (status, init) = match error {
            None => (Status::Active, InitStatus::Success),
            Some(_) => (Status::Failed, InitStatus::Failed),
        };
        let init = InitScript { ran: true, status: Some(init), error: error.map(str::to_owned) };
        self.write_init(id, status, init).await
    }

    /// Changes status and metadata together; the caller holds the environment's lock.
    async fn write_init(&self, id: EnvironmentId, status: Status, init: InitScript) -> Result<(), StoreError> {
        let change = |metadata: &EnvironmentMetadata| {
            Some(EnvironmentMetadata { init_script: Some(init.clone()), ..metadata.clone() })
        };
        self.change_metadata_and_status(id, Some((status, init.error.as_deref())), change).await
    }

    /// Replaces the metadata of an environment; `None` leaves them as they are.
    async fn change_metadata(
        &self,
        id: EnvironmentId,
        change: impl Fn(&EnvironmentMetadata) -> Option<EnvironmentMetadata>,
    ) -> Result<(), StoreError> {
        self.change_metadata_and_status(id, None, change).await
    }

    /// Replaces the metadata and, if one is given, the status with its error, together.
    async fn change_metadata_and_status(
        &self,
        id: EnvironmentId,
        status: Option<(Status, Option<&str>)>,
        change: impl Fn(&EnvironmentMetadata) -> Option<EnvironmentMetadata>,
    ) -> Result<(), StoreError> {
        self.retry_while_disconnected(|| async {
            // Another process may write other metadata at the same moment.
            for _ in 0..100 {
                let found =
                    sqlx::query(SELECT_ENVIRONMENT_METADATA).bind(id.to_string()).fetch_optional(&self.pool).await?;
                let Some(row) = found else { return Ok(()) };
                let row = RowReader { row: &row, table: "remote_agent_isolation_environments" };
                let old = row.required_text("metadata")?;
                let metadata =
                    serde_json::from_str(&old).map_err(|error| row.invalid_value_error("metadata", &error))?;
                let Some(metadata) = change(&metadata) else { return Ok(()) };
                let new = serde_json::to_string(&metadata).map_err(|error| StoreError::Other(error.to_string()))?;
                let keep = sqlx::query(UPDATE_ENVIRONMENT_METADATA).bind(id.to_string()).bind(old).bind(new);
                let keep = keep.bind(Moment::now().to_string()).bind(status.map(|(status, _)| status.as_str()));
                let error = status.and_then(|(_, error)| error).map(str::to_owned);
                let kept = keep.bind(error).execute(&self.pool).await?;
                if kept.rows_affected() == 1 {
                    return Ok(());
                }
            }
            Err(StoreError::Busy)
        })
        .await
    }

    async fn with_links(&self, row: Option<AnyRow>) -> Result<Option<Environment>, StoreError> {
        let Some(row) = row else { return Ok(None) };
        let mut found = [read_environment(&row)?];
        self.add_links(found[0].codebase_id, &mut found).await?;
        let [environment] = found;
        Ok(Some(environment))
    }

    async fn add_links(&self, codebase: CodebaseId, environments: &mut [Environment]) -> Result<(), StoreError> {
        let rows = sqlx::query(LINKS_OF_CODEBASE).bind(codebase.to_string()).fetch_all(&self.pool).await?;
        let mut places: HashMap<EnvironmentId, &mut Environment> = environments.iter_mut().map(|e| (e.id, e)).collect();
        for row in &rows {
            let row = RowReader { row, table: "grove_environment_links" };
            let number = row.required_number("number")?;
            let number = u64::try_from(number).map_err(|error| row.invalid_value_error("number", &error))?;
            let Some(environment) = places.get_mut(&row.parse("id")?) else { continue };
            match row.parse("kind")? {
                WorkKind::Issue => environment.related_issues.push(number),
                WorkKind::Pr => environment.related_prs.push(number),
                other => return Err(row.invalid_value_error("kind", &other)),
            }
        }
        Ok(())
    }
}

fn read_environment(row: &AnyRow) -> Result<Environment, StoreError> {
    let row = RowReader { row, table: "remote_agent_isolation_environments" };
    let work = WorkKey::new(row.parse("workflow_type")?, &row.required_text("workflow_id")?);
    let branch = BranchName::parse(&row.required_text("branch_name")?);
    let metadata = serde_json::from_str(&row.required_text("metadata")?);
    Ok(Environment {
        id: row.parse("id")?,
        codebase_id: row.parse("codebase_id")?,
        work: work.map_err(|error| row.invalid_value_error("workflow_id", &error))?,
        provider: row.required_text("provider")?,
        path: row.required_text("working_path")?.into(),
        branch: branch.map_err(|error| row.invalid_value_error("branch_name", &error))?,
        status: row.parse("status")?,
        error: row.optional_text("error")?,
        base_ref: row.optional_text("base_ref")?,
        base_sha: row.parse_optional("base_sha")?,
        head_sha: row.parse_optional("head_sha")?,
        created_by_platform: row.optional_text("created_by_platform")?,
        created_by_user: row.optional_text("created_by_user")?,
        created_at: row.parse("created_at")?,
        last_activity_at: row.parse("last_activity_at")?,
        size_bytes: row.optional_number("size_bytes")?,
        size_at: row.parse_optional("size_at")?,
        metadata: metadata.map_err(|error| row.invalid_value_error("metadata", &error))?,
        related_issues: Vec::new(),
        related_prs: Vec::new(),
        node: row.required_text("node")?,
        nonce: row.parse("nonce")?,
        owner: row.parse_optional("owner")?,
        lease_until: row.parse_optional("lease_until")?,
    })
}
