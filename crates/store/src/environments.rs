//! `remote_agent_isolation_environments` and its links

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use grove_model::{
    AdoptedFrom, BranchName, CodebaseId, CommitSha, Environment, EnvironmentId, EnvironmentMetadata, Kind, Moment,
    Nonce, Owner, PullRequestInfo, Status, WorkKey,
};
use sqlx::any::AnyRow;

use crate::codebases::text;
use crate::row::Reader;
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

const CLAIM: &str = concat!(
    "INSERT INTO remote_agent_isolation_environments (",
    columns!(),
    ", updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'creating', NULL, NULL, NULL, NULL, $8, $9, $10, $10, NULL, NULL, '{}', $11, ",
    "$12, $13, $14, $10) ON CONFLICT DO NOTHING"
);
const ADOPT: &str = concat!(
    "INSERT INTO remote_agent_isolation_environments (",
    columns!(),
    ", updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7, 'active', NULL, $15, $16, $17, $8, $9, $10, $10, NULL, NULL, $18, $11, ",
    "$12, $13, $14, $10) ON CONFLICT DO NOTHING"
);
/// Who holds the work, or else the branch, or else the path.
const HOLDER: &str = select!(
    "WHERE status <> 'destroyed' AND ((codebase_id = $1 AND workflow_type = $2 AND workflow_id = $3) \
        OR (codebase_id = $1 AND branch_name = $4) OR (node = $5 AND working_path = $6)) \
     ORDER BY CASE WHEN workflow_type = $2 AND workflow_id = $3 THEN 0 WHEN branch_name = $4 THEN 1 ELSE 2 END LIMIT 1"
);
const ACTIVATE: &str = "UPDATE remote_agent_isolation_environments \
     SET status = 'active', base_ref = $3, base_sha = $4, head_sha = $5, updated_at = $6, last_activity_at = $6 \
     WHERE id = $1 AND nonce = $2 AND status = 'creating'";
const ABANDON: &str = "UPDATE remote_agent_isolation_environments SET status = 'destroyed', error = $3, updated_at = $4 \
     WHERE id = $1 AND nonce = $2 AND status = 'creating'";
const MOVE: &str = "UPDATE remote_agent_isolation_environments SET status = $3, error = $4, updated_at = $5 \
     WHERE id = $1 AND status = $2";
const RENEW: &str = "UPDATE remote_agent_isolation_environments SET lease_until = $3 \
     WHERE id = $1 AND owner = $2 AND status = 'creating'";
const TAKE_OVER: &str = "UPDATE remote_agent_isolation_environments SET owner = $3, lease_until = $4 \
     WHERE id = $1 AND owner = $2 AND status IN ('creating', 'removing')";
const KEEP_SIZE: &str = "UPDATE remote_agent_isolation_environments SET size_bytes = $2, size_at = $3 WHERE id = $1";
const METADATA: &str = "SELECT id, metadata FROM remote_agent_isolation_environments WHERE id = $1";
const KEEP_METADATA: &str = "UPDATE remote_agent_isolation_environments SET metadata = $3, updated_at = $4 \
     WHERE id = $1 AND metadata = $2";
const FOLLOW_BRANCH: &str = "UPDATE remote_agent_isolation_environments SET branch_name = $3, updated_at = $4 \
     WHERE id = $1 AND branch_name = $2 AND status <> 'destroyed' AND NOT EXISTS (SELECT 1 \
       FROM remote_agent_isolation_environments other WHERE other.id <> $1 AND other.status <> 'destroyed' \
       AND other.branch_name = $3 AND other.codebase_id = remote_agent_isolation_environments.codebase_id)";
const BY_ID: &str = select!("WHERE id = $1");
const LIVE: &str = select!("WHERE codebase_id = $1 AND status <> 'destroyed' ORDER BY created_at, id");
const ALL: &str = select!("WHERE codebase_id = $1 ORDER BY created_at, id");
const LINKS: &str = "SELECT l.environment_id AS id, l.kind AS kind, l.number AS number FROM grove_environment_links l \
     JOIN remote_agent_isolation_environments e ON e.id = l.environment_id WHERE e.codebase_id = $1 ORDER BY l.number";
const LINK: &str =
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
    pub owner: Owner,
    pub lease_until: Moment,
}

/// What is known of a worktree that is taken over.
#[derive(Clone, Debug)]
pub struct Adopted {
    pub from: AdoptedFrom,
    pub base: Option<(String, CommitSha)>,
    pub head: Option<CommitSha>,
    /// It comes from an older kind of record.
    pub migrated: bool,
}

/// What came of asking for the right to make an environment.
#[derive(Debug)]
pub enum Claim {
    /// It is ours to make.
    Won(Environment),
    /// This one has the work, the branch or the path already.
    Held(Environment),
}

impl Store {
    /// Inserts the `creating` row that is also the lock.
    pub async fn claim(&self, new: &NewEnvironment) -> Result<Claim, StoreError> {
        self.retry(|| self.insert(CLAIM, new, None)).await
    }

    /// Inserts a row for a worktree that somebody else made, at `active`.
    pub async fn adopt(&self, new: &NewEnvironment, adopted: &Adopted) -> Result<Claim, StoreError> {
        self.retry(|| self.insert(ADOPT, new, Some(adopted))).await
    }

    async fn insert(
        &self,
        statement: &'static str,
        new: &NewEnvironment,
        adopted: Option<&Adopted>,
    ) -> Result<Claim, StoreError> {
        // Between a refused insert and the look at the holder it may be gone again.
        for _ in 0..100 {
            let mut query = sqlx::query(statement)
                .bind(new.id.to_string())
                .bind(new.codebase_id.to_string())
                .bind(new.work.kind().as_str())
                .bind(new.work.id().to_owned())
                .bind(new.provider)
                .bind(text(&new.path))
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
            let holder = sqlx::query(HOLDER)
                .bind(new.codebase_id.to_string())
                .bind(new.work.kind().as_str())
                .bind(new.work.id().to_owned())
                .bind(new.branch.as_str().to_owned())
                .bind(new.node.clone())
                .bind(text(&new.path))
                .fetch_optional(&self.pool)
                .await?;
            if let Some(row) = holder {
                // A repeated call finds its own row.
                let holder = read(&row)?;
                return Ok(if holder.id == new.id { Claim::Won(holder) } else { Claim::Held(holder) });
            }
        }
        Err(StoreError::Busy)
    }

    /// `creating` → `active`, by the owner of the nonce only.
    pub async fn activate(
        &self,
        id: EnvironmentId,
        nonce: Nonce,
        base: Option<(&str, &CommitSha)>,
        head: &CommitSha,
    ) -> Result<Environment, StoreError> {
        self.retry(|| async {
            let updated = sqlx::query(ACTIVATE)
                .bind(id.to_string())
                .bind(nonce.to_string())
                .bind(base.map(|(name, _)| name.to_owned()))
                .bind(base.map(|(_, sha)| sha.to_string()))
                .bind(head.to_string())
                .bind(Moment::now().to_string())
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

    /// Says that the owner is still at work.
    pub async fn renew(&self, id: EnvironmentId, owner: &Owner, until: Moment) -> Result<(), StoreError> {
        self.retry(|| async {
            let query = sqlx::query(RENEW).bind(id.to_string()).bind(owner.to_string()).bind(until.to_string());
            query.execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Takes an unfinished creation, removal or undo over from an owner that is gone. Of several who try, one does.
    pub async fn take_over(
        &self,
        id: EnvironmentId,
        from: &Owner,
        to: &Owner,
        until: Moment,
    ) -> Result<bool, StoreError> {
        self.retry(|| async {
            let query = sqlx::query(TAKE_OVER).bind(id.to_string()).bind(from.to_string());
            let taken = query.bind(to.to_string()).bind(until.to_string()).execute(&self.pool).await?;
            if taken.rows_affected() == 1 {
                return Ok(true);
            }
            // A repeated call finds its own work done, and not that of another task of this process.
            let now = self.try_environment(id).await?;
            Ok(now.is_some_and(|e| e.owner.as_ref() == Some(to) && e.lease_until == Some(until)))
        })
        .await
    }

    /// `creating` → `destroyed`, keeping why.
    pub async fn abandon(&self, id: EnvironmentId, nonce: Nonce, error: &str) -> Result<(), StoreError> {
        self.retry(|| async {
            sqlx::query(ABANDON)
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

    /// Moves an environment along the life cycle, or says that it is no longer where it was.
    pub async fn advance(
        &self,
        id: EnvironmentId,
        from: Status,
        to: Status,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        if !from.may_become(to) {
            return Err(StoreError::Other(format!("an environment that is {from} cannot become {to}")));
        }
        self.retry(|| async {
            let updated = sqlx::query(MOVE)
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

    /// Keeps what was measured at `at`; `None` where that gave no figure.
    pub async fn keep_sizes(&self, sizes: &HashMap<EnvironmentId, Option<i64>>, at: Moment) -> Result<(), StoreError> {
        // In one order, so that two who write at once do not wait for each other.
        let sizes: BTreeMap<String, Option<i64>> = sizes.iter().map(|(id, size)| (id.to_string(), *size)).collect();
        self.retry(|| async {
            let mut transaction = self.pool.begin_with(self.engine.begin_write()).await?;
            for (id, size) in &sizes {
                let keep = sqlx::query(KEEP_SIZE).bind(id.clone()).bind(*size).bind(at.to_string());
                keep.execute(&mut *transaction).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }

    pub async fn environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        self.retry(|| self.try_environment(id)).await
    }

    pub(crate) async fn try_environment(&self, id: EnvironmentId) -> Result<Option<Environment>, StoreError> {
        let row = sqlx::query(BY_ID).bind(id.to_string()).fetch_optional(&self.pool).await?;
        self.with_links(row).await
    }

    /// All environments of a codebase, oldest first; `all` includes those destroyed.
    pub async fn environments(&self, codebase: CodebaseId, all: bool) -> Result<Vec<Environment>, StoreError> {
        self.retry(|| async {
            let rows =
                sqlx::query(if all { ALL } else { LIVE }).bind(codebase.to_string()).fetch_all(&self.pool).await?;
            let mut environments = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            self.add_links(codebase, &mut environments).await?;
            Ok(environments)
        })
        .await
    }

    /// Branches that works other than this one have, or ever had.
    pub async fn branches_of_others(&self, codebase: CodebaseId, work: &WorkKey) -> Result<Vec<String>, StoreError> {
        self.retry(|| async {
            let query = sqlx::query_scalar(BRANCHES_OF_OTHERS);
            let query = query.bind(codebase.to_string()).bind(work.kind().as_str()).bind(work.id().to_owned());
            Ok(query.fetch_all(&self.pool).await?)
        })
        .await
    }

    /// Keeps the new name of an environment's branch; `false`: another environment has a branch of that
    /// name, or the record has changed meanwhile.
    pub async fn follow_branch(
        &self,
        id: EnvironmentId,
        from: &BranchName,
        to: &BranchName,
    ) -> Result<bool, StoreError> {
        self.retry(|| async {
            let follow = sqlx::query(FOLLOW_BRANCH).bind(id.to_string()).bind(from.to_string()).bind(to.to_string());
            Ok(follow.bind(Moment::now().to_string()).execute(&self.pool).await?.rows_affected() == 1)
        })
        .await
    }

    /// Says that an environment is also about an issue or a pull request.
    pub async fn link(&self, id: EnvironmentId, kind: Kind, number: u64) -> Result<(), StoreError> {
        self.retry(|| async {
            let number =
                i64::try_from(number).map_err(|_| StoreError::Other(format!("#{number} is no number of an {kind}")))?;
            sqlx::query(LINK).bind(id.to_string()).bind(kind.as_str()).bind(number).execute(&self.pool).await?;
            Ok(())
        })
        .await
    }

    /// Keeps what is known of an environment's pull request, and that it is about it.
    pub async fn keep_pull_request(&self, id: EnvironmentId, pr: &PullRequestInfo) -> Result<(), StoreError> {
        self.link(id, Kind::Pr, pr.number).await?;
        self.retry(|| async {
            // Somebody else may keep something else at the same moment.
            for _ in 0..100 {
                let found = sqlx::query(METADATA).bind(id.to_string()).fetch_optional(&self.pool).await?;
                let Some(row) = found else { return Ok(()) };
                let row = Reader { row: &row, table: "remote_agent_isolation_environments" };
                let old = row.text("metadata")?;
                let mut metadata: EnvironmentMetadata =
                    serde_json::from_str(&old).map_err(|error| row.nonsense("metadata", &error))?;
                if metadata.pr.as_ref().is_some_and(|known| pr.is_outdated_by(known)) {
                    return Ok(());
                }
                metadata.pr = Some(pr.clone());
                let new = serde_json::to_string(&metadata).map_err(|error| StoreError::Other(error.to_string()))?;
                let keep = sqlx::query(KEEP_METADATA).bind(id.to_string()).bind(old).bind(new);
                let kept = keep.bind(Moment::now().to_string()).execute(&self.pool).await?;
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
        let mut found = [read(&row)?];
        self.add_links(found[0].codebase_id, &mut found).await?;
        let [environment] = found;
        Ok(Some(environment))
    }

    async fn add_links(&self, codebase: CodebaseId, environments: &mut [Environment]) -> Result<(), StoreError> {
        let rows = sqlx::query(LINKS).bind(codebase.to_string()).fetch_all(&self.pool).await?;
        let mut places: HashMap<EnvironmentId, &mut Environment> = environments.iter_mut().map(|e| (e.id, e)).collect();
        for row in &rows {
            let row = Reader { row, table: "grove_environment_links" };
            let number = row.number("number")?;
            let number = u64::try_from(number).map_err(|error| row.nonsense("number", &error))?;
            let Some(environment) = places.get_mut(&row.parse("id")?) else { continue };
            match row.parse("kind")? {
                Kind::Issue => environment.related_issues.push(number),
                Kind::Pr => environment.related_prs.push(number),
                other => return Err(row.nonsense("kind", &other)),
            }
        }
        Ok(())
    }
}

fn read(row: &AnyRow) -> Result<Environment, StoreError> {
    let row = Reader { row, table: "remote_agent_isolation_environments" };
    let work = WorkKey::new(row.parse("workflow_type")?, &row.text("workflow_id")?);
    let branch = BranchName::parse(&row.text("branch_name")?);
    let metadata = serde_json::from_str(&row.text("metadata")?);
    Ok(Environment {
        id: row.parse("id")?,
        codebase_id: row.parse("codebase_id")?,
        work: work.map_err(|error| row.nonsense("workflow_id", &error))?,
        provider: row.text("provider")?,
        path: row.text("working_path")?.into(),
        branch: branch.map_err(|error| row.nonsense("branch_name", &error))?,
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
        metadata: metadata.map_err(|error| row.nonsense("metadata", &error))?,
        related_issues: Vec::new(),
        related_prs: Vec::new(),
        node: row.text("node")?,
        nonce: row.parse("nonce")?,
        owner: row.parse_optional("owner")?,
        lease_until: row.parse_optional("lease_until")?,
    })
}
