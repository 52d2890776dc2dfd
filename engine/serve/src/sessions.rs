//! Images that clients store here while they work on them: [`Sessions`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use crate::journal::unix;
use crate::spool::Workspace;

/// An image of a client.
#[derive(Clone, Debug)]
pub struct Session {
    /// The image, a file or a folder.
    pub image: PathBuf,
    /// The workspace of its files.
    pub workspace: Arc<Workspace>,
    created: SystemTime,
    used: SystemTime,
    until: Instant,
    expiry: Duration,
}

impl Session {
    /// The facts for clients, in MONAI Label's form, without paths of this machine.
    pub fn info(&self, id: &str) -> Value {
        let name = self.image.file_name().unwrap_or_default().to_string_lossy();
        json!({
            "name": id, "path": "", "image": name, "meta": {},
            "create_ts": unix(self.created), "last_access_ts": unix(self.used), "expiry": self.expiry.as_secs(),
        })
    }
}

/// Sessions by name; the names are random and cannot be guessed.
#[derive(Debug)]
pub struct Sessions {
    all: Mutex<HashMap<String, Session>>,
    expiry: Duration,
}

impl Sessions {
    /// An empty table. A session is removed if it is not used for `expiry`.
    pub fn new(expiry: Duration) -> Self {
        Self { all: Mutex::default(), expiry }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.all.lock().unwrap_or_else(|held| held.into_inner())
    }

    /// Stores an image, for at most the expiry time of all sessions. Returns its name and the facts for
    /// clients.
    pub fn add(
        &self,
        image: PathBuf,
        workspace: Arc<Workspace>,
        expiry: Option<Duration>,
    ) -> std::io::Result<(String, Value)> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let expiry = expiry.unwrap_or(self.expiry).min(self.expiry);
        let now = SystemTime::now();
        let session = Session { image, workspace, created: now, used: now, until: Instant::now() + expiry, expiry };
        let info = session.info(&id);
        self.lock().insert(id.clone(), session);
        Ok((id, info))
    }

    /// Finds a session, and marks it as used.
    pub fn get(&self, id: &str) -> Option<Session> {
        self.remove_expired();
        let mut all = self.lock();
        let session = all.get_mut(id)?;
        (session.used, session.until) = (SystemTime::now(), Instant::now() + session.expiry);
        Some(session.clone())
    }

    /// Removes a session. Its files are removed when nothing uses them any more.
    pub fn remove(&self, id: &str) -> Option<Session> {
        self.lock().remove(id)
    }

    /// Removes expired sessions.
    pub fn remove_expired(&self) {
        let now = Instant::now();
        self.lock().retain(|_, session| session.until > now);
    }

    /// The number of sessions.
    pub fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::Spool;

    #[test]
    fn sessions_end_and_their_files_go() {
        let spool = Spool::new(None, 100).unwrap();
        let sessions = Sessions::new(Duration::from_secs(60));
        let workspace = spool.workspace().unwrap();
        let image = workspace.uploads().join("a.nii");
        std::fs::write(&image, "x").unwrap();
        let (id, info) = sessions.add(image.clone(), workspace, Some(Duration::from_secs(3600))).unwrap();
        assert_eq!((id.len(), &info["expiry"]), (32, &json!(60)), "no longer than all sessions");
        assert!(!info.to_string().contains(image.parent().unwrap().to_str().unwrap()), "{info}");
        assert!(sessions.get(&id).is_some() && sessions.get("other").is_none());
        sessions.remove(&id).unwrap();
        assert!(!image.exists());

        let (id, _) = sessions.add(image, spool.workspace().unwrap(), Some(Duration::ZERO)).unwrap();
        assert!(sessions.get(&id).is_none(), "its time is over");
        assert_eq!(sessions.len(), 0);
    }
}
