//! Connecting to a Redis or Valkey, or a cluster of them, and the commands that are used.
use super::order::{Field, GetReply};
use crate::config::plan::{ServerAddress, SharedPlan};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    IntoConnectionInfo, RedisConnectionInfo, RedisError, RedisResult,
};
use std::cell::RefCell;
use std::time::Duration;
use tokio::sync::Mutex;

/// How long connecting and writing may take, at least: longer than a request would wait.
const PATIENCE_MIN: Duration = Duration::from_secs(1);

/// Writes fields, and extends the life of their key to at least so many seconds. One command does both, so that the key never lacks an
/// end.
const PUT: &str = "redis.call('HSET', KEYS[1], unpack(ARGV, 2)) \
    if redis.call('TTL', KEYS[1]) < tonumber(ARGV[1]) then redis.call('EXPIRE', KEYS[1], ARGV[1]) end \
    return 1";

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ServerFailure {
    /// There is no connection, or the server does not answer.
    #[error("{0}")]
    Silent(String),
    /// The server answered with an error.
    #[error("{0}")]
    Refused(String),
}

/// The server. The first command connects to it.
pub struct Server {
    plan: SharedPlan,
    patience: Duration,
    generation_key: String,
    connection: RefCell<Option<Connection>>,
    connecting: Mutex<()>,
    /// Held while deletions that failed are made good. Who reads waits for it, so that each is sent once.
    pub settling: Mutex<()>,
}

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Server {
    /// A server without a connection.
    pub fn new(plan: SharedPlan) -> Self {
        Self {
            generation_key: format!("{}:generation", plan.prefix),
            patience: plan.timeout.max(PATIENCE_MIN),
            plan,
            connection: RefCell::new(None),
            connecting: Mutex::new(()),
            settling: Mutex::new(()),
        }
    }

    /// Reads a field of a key, and the generation. If there is no generation, one is drawn.
    pub async fn get(&self, key: &str, field: Field) -> Result<GetReply, ServerFailure> {
        let mut of_generation = redis::cmd("GET");
        of_generation.arg(&self.generation_key);
        let mut of_field = redis::cmd("HGET");
        of_field.arg(key).arg(field.text());
        let limit = self.plan.timeout;
        // Both commands are sent at once.
        let (generation, value) = tokio::join!(
            self.ask::<Option<Vec<u8>>>(&of_generation, limit),
            self.ask::<Option<Vec<u8>>>(&of_field, limit)
        );
        let value = match value {
            // The key has another type.
            Err(ServerFailure::Refused(_)) => None,
            value => value?,
        };
        let generation = match generation? {
            None => {
                let mut draw = redis::cmd("SET");
                draw.arg(&self.generation_key)
                    .arg(&draw_generation())
                    .arg("NX");
                self.ask::<()>(&draw, limit).await?;
                self.ask::<Option<Vec<u8>>>(&of_generation, limit).await?
            }
            generation => generation,
        };
        let generation = generation.and_then(|bytes| bytes.try_into().ok());
        let Some(generation) = generation.map(u64::from_be_bytes) else {
            self.renew().await?;
            return Err(ServerFailure::Refused(
                "the generation was garbage".to_owned(),
            ));
        };
        Ok(GetReply { generation, value })
    }

    /// Writes fields of a key.
    pub async fn put(
        &self,
        key: &str,
        fields: &[(Field, Vec<u8>)],
        ttl_s: u32,
    ) -> Result<(), ServerFailure> {
        let mut put = redis::cmd("EVAL");
        put.arg(PUT).arg(1).arg(key).arg(ttl_s);
        for (field, value) in fields {
            put.arg(field.text()).arg(value);
        }
        self.ask(&put, self.patience).await
    }

    /// Deletes a key.
    pub async fn forget(&self, key: &str) -> Result<(), ServerFailure> {
        self.ask(redis::cmd("DEL").arg(key), self.patience).await
    }

    /// Draws a new generation.
    pub async fn renew(&self) -> Result<(), ServerFailure> {
        let mut draw = redis::cmd("SET");
        draw.arg(&self.generation_key).arg(&draw_generation());
        self.ask(&draw, self.patience).await
    }

    /// Sends a command, and waits for the answer until `limit`. A connection that does not answer is dropped.
    async fn ask<T: FromRedisValue>(
        &self,
        command: &Cmd,
        limit: Duration,
    ) -> Result<T, ServerFailure> {
        let mut connection = self.connection().await?;
        let answer = tokio::time::timeout(limit, connection.query(command)).await;
        let failure = match answer {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => failure(&error),
            Err(_) => ServerFailure::Silent("it did not answer in time".to_owned()),
        };
        if matches!(failure, ServerFailure::Silent(_)) {
            self.connection.replace(None);
        }
        Err(failure)
    }

    /// The connection, which all commands share.
    async fn connection(&self) -> Result<Connection, ServerFailure> {
        if let Some(connection) = self.connection.borrow().clone() {
            return Ok(connection);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(connection) = self.connection.borrow().clone() {
            return Ok(connection);
        }
        let connection = match tokio::time::timeout(self.patience, self.connect()).await {
            // Even a refused password: without a connection, no command can be sent.
            Ok(Err(error)) => return Err(ServerFailure::Silent(error.to_string())),
            Err(_) => return Err(ServerFailure::Silent("connecting took too long".to_owned())),
            Ok(Ok(connection)) => connection,
        };
        self.connection.replace(Some(connection.clone()));
        Ok(connection)
    }

    async fn connect(&self) -> RedisResult<Connection> {
        let mut servers = Vec::with_capacity(self.plan.servers.len());
        for server in &self.plan.servers {
            servers.push(self.login(server)?);
        }
        if self.plan.cluster {
            let client = ClusterClient::builder(servers)
                .retries(1)
                .connection_timeout(self.patience)
                .response_timeout(self.patience)
                .build()?;
            return client.get_async_connection().await.map(Connection::Cluster);
        }
        let Some(server) = servers.into_iter().next() else {
            return Err((ErrorKind::InvalidClientConfig, "no server").into());
        };
        let how = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.patience))
            .set_response_timeout(Some(self.patience));
        let client = Client::open(server)?;
        let connection = client.get_multiplexed_async_connection_with_config(&how);
        connection.await.map(Connection::Single)
    }

    /// The address of a server, and the login.
    fn login(&self, server: &ServerAddress) -> RedisResult<ConnectionInfo> {
        let address = match server {
            ServerAddress::Ip(address) => {
                ConnectionAddr::Tcp(address.ip().to_string(), address.port())
            }
            ServerAddress::Name { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
        };
        let mut login = RedisConnectionInfo::default();
        if let Some(user) = &self.plan.user {
            login = login.set_username(user);
        }
        if let Some(password) = &self.plan.password {
            login = login.set_password(&password.text);
        }
        Ok(address.into_connection_info()?.set_redis_settings(login))
    }
}

impl Connection {
    async fn query<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let answer = match self {
            Self::Single(connection) => connection.req_packed_command(command).await,
            Self::Cluster(connection) => connection.req_packed_command(command).await,
        };
        Ok(T::from_redis_value(answer?.extract_error()?)?)
    }
}

fn failure(error: &RedisError) -> ServerFailure {
    let is_silent = error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_connection_refusal()
        || error.is_cluster_error()
        || error.is_unrecoverable_error();
    if is_silent {
        ServerFailure::Silent(error.to_string())
    } else {
        ServerFailure::Refused(error.to_string())
    }
}

/// Draws a generation that was never used before.
fn draw_generation() -> [u8; 8] {
    let mut bytes = [0; 8];
    // It fails only on kernels that are too old for carrick.
    let _ = getrandom::fill(&mut bytes);
    bytes
}
