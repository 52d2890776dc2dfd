//! `hearth serve`.

mod model;
mod results;
mod volumes;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hearth_models::open::OpenOptions;
#[cfg(feature = "dicom-net")]
use hearth_serve::dicom::DicomOptions;
use hearth_serve::{Options, Server, Token};

use crate::commands::opening::{ModelArgs, NnunetArgs, OpeningArgs, open_options};
use crate::error::{Context, Failure, Outcome};
use crate::repeated;
use crate::terminal::seconds;
use crate::{note, out};

/// The memory for reading an image, as a multiple of the size of a request. The values of a byte each take
/// nine times their size, and what is compressed unpacks to some more.
const ROOM: u64 = 12;

/// Arguments of `hearth serve`.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// The models, as for `hearth predict`: runs, packages (.hearth), nnU-Net v2 models or folders of
    /// several, names of stored models; NAME=MODEL renames one
    #[arg(required = true, value_name = "[NAME=]MODEL")]
    pub models: Vec<String>,
    /// The address to listen on; addresses other than 127.0.0.1 and ::1 need --tls-cert, --tls-key and
    /// --token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,
    /// The port; 0 for any free port
    #[arg(long, value_name = "PORT", default_value_t = 8000)]
    pub port: u16,
    /// A folder of images and labels for 3D Slicer, in MONAI Label's layout
    #[arg(long, value_name = "DIR")]
    pub datastore: Option<PathBuf>,
    /// The maximum number of waiting requests; more are answered with status 429
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub queue: usize,
    /// The number of predictions that run at once; each uses all cores, and its own memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: usize,
    /// The maximum time in seconds from the end of an upload to its result; then status 504
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: u64,
    /// The maximum size of a request in megabytes; larger ones are answered with status 413
    #[arg(long, value_name = "MB", default_value_t = 2048, value_parser = clap::value_parser!(u64).range(1..1 << 30))]
    pub max_request: u64,
    /// The maximum total size of temporary files, in megabytes
    #[arg(long, value_name = "MB", default_value_t = 32_768, value_parser = clap::value_parser!(u64).range(1..1 << 30))]
    pub max_temporary: u64,
    /// The certificate chain, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The certificate's private key, a PEM file
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// A file with the token that clients send as `Authorization: Bearer TOKEN`, and users enter in 3D
    /// Slicer as the password; without it a token is made and printed
    #[arg(long, value_name = "FILE")]
    pub token: Option<PathBuf>,
    /// Ask for no token: every user and program of this machine reads and changes everything
    #[arg(long, conflicts_with = "token")]
    pub no_token: bool,
    /// The network, and how it runs.
    #[command(flatten)]
    pub opening: OpeningArgs,
    /// Use packages only if they are signed by the holder of this public key (PEM, Ed25519)
    #[arg(long, value_name = "FILE")]
    pub verify_key: Option<PathBuf>,
    /// Predict DICOM series of any modality, also those that a model is not for
    #[arg(long)]
    pub any_modality: bool,
    /// Options for models of nnU-Net.
    #[command(flatten)]
    pub nnunet: NnunetArgs,
    /// Images that arrive by DICOM.
    #[cfg(feature = "dicom-net")]
    #[command(flatten)]
    pub dicom: dicom::DicomArgs,
}

impl Args {
    /// The options of the server, and the token if one was made.
    fn options(&self) -> Outcome<(Options, Option<String>)> {
        let tls = self.tls_cert.clone().zip(self.tls_key.clone());
        let given = self.token.as_deref().map(Token::read).transpose()?;
        // Other machines need TLS, too, so their operator chooses both.
        let makes = given.is_none() && !self.no_token && self.host.is_loopback();
        let (made, text) = makes.then(Token::random).transpose()?.unzip();
        let options = Options {
            address: SocketAddr::new(self.host, self.port),
            tls,
            token: given.or(made),
            datastore: self.datastore.clone(),
            volumes: Some(Arc::new(volumes::Reading)),
            queue: self.queue,
            jobs: self.jobs,
            max_request: self.max_request << 20,
            max_spool: self.max_temporary << 20,
            timeout: Duration::from_secs(self.timeout),
            ..Options::default()
        };
        Ok((options, text))
    }

    /// The options to open models as `hearth predict` does.
    fn opening(&self) -> Outcome<OpenOptions> {
        if self.opening.previous_stage.is_some() {
            return Err(Failure::new("--previous-stage is for `hearth predict`: remove it"));
        }
        let model = ModelArgs { verify_key: self.verify_key.clone(), ..ModelArgs::default() };
        Ok(open_options(&self.opening, &model, &self.nnunet))
    }
}

/// Opens the models, and serves them until Ctrl-C or the signal TERM.
pub fn run(args: &Args) -> Outcome {
    repeated::print_all();
    let (options, made) = args.options()?;
    let opening = args.opening()?;
    options.rehearse()?;
    #[cfg(feature = "dicom-net")]
    let dicom = args.dicom.options()?;
    #[cfg(feature = "dicom-net")]
    dicom.as_ref().map_or(Ok(()), DicomOptions::rehearse)?;
    hearth_data::readers::limit_room(options.max_request.saturating_mul(ROOM));
    let mut models = Vec::new();
    for given in &args.models {
        let start = Instant::now();
        let model = model::open(given, &opening, args.any_modality).while_doing(|| format!("cannot open {given}"))?;
        let card = model.card();
        note!("{}: {}, loaded in {}", card.name, card.description, seconds(start.elapsed().as_secs_f64()));
        models.push(model);
    }
    if let Some(folder) = args.datastore.as_deref().filter(|folder| !folder.exists()) {
        note!("--datastore {}: there is no such folder; an empty one is made", folder.display());
    }
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    #[cfg_attr(not(feature = "dicom-net"), allow(unused_mut))]
    let mut server = Server::bind(options, models)?;
    #[cfg(feature = "dicom-net")]
    if let Some(options) = dicom {
        let title = options.ae_title.clone();
        out!("dicom {title}@{}", server.listen_dicom(options)?);
    }
    out!("{scheme}://{}", server.address());
    if let Some(token) = made {
        out!("token {token}");
    }
    note!("Ctrl-C stops the server after its current work; a second one stops it at once");
    server.run()?;
    Ok(())
}

#[cfg(feature = "dicom-net")]
mod dicom {
    use std::net::{IpAddr, SocketAddr};
    use std::path::PathBuf;
    use std::time::Duration;

    use hearth_serve::dicom::{Destination, DicomOptions};

    use crate::error::{Failure, Outcome};

    /// Options for images that arrive by DICOM.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Images that arrive by DICOM")]
    pub struct DicomArgs {
        /// Also run a DICOM node that images are stored to (C-STORE); their series are predicted
        #[arg(long, value_name = "AE:PORT", requires = "dicom_results")]
        pub dicom: Option<String>,
        /// The folder for the results: STUDY/SERIES_MODEL.dcm
        #[arg(long, value_name = "DIR", requires = "dicom")]
        pub dicom_results: Option<PathBuf>,
        /// Also send results to this node; may be given several times
        #[arg(long, value_name = "AE@HOST:PORT", requires = "dicom")]
        pub to: Vec<Destination>,
        /// The address that the node listens on; addresses other than loopback need --dicom-from
        #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", requires = "dicom")]
        pub dicom_host: IpAddr,
        /// Accept images only from this node; may be given several times
        #[arg(long, value_name = "AE", requires = "dicom")]
        pub dicom_from: Vec<String>,
        /// The model that predicts the images, if several are served
        #[arg(long, value_name = "NAME", requires = "dicom")]
        pub dicom_model: Option<String>,
        /// The time without new images after which a study is complete, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 10, requires = "dicom")]
        pub dicom_quiet: u64,
        /// Skip series with fewer slices, which are localizers
        #[arg(long, value_name = "N", default_value_t = 8, requires = "dicom")]
        pub dicom_least_slices: usize,
    }

    impl DicomArgs {
        /// The library's options; `None` without `--dicom`.
        pub fn options(&self) -> Outcome<Option<DicomOptions>> {
            let (Some(given), Some(results)) = (&self.dicom, &self.dicom_results) else { return Ok(None) };
            let wrong = || Failure::new(format!("--dicom {given}: expected AE:PORT, as in HEARTH:11112"));
            let (title, port) = given.rsplit_once(':').ok_or_else(wrong)?;
            let port: u16 = port.parse().map_err(|_| wrong())?;
            Ok(Some(DicomOptions {
                address: SocketAddr::new(self.dicom_host, port),
                from: self.dicom_from.clone(),
                model: self.dicom_model.clone(),
                to: self.to.clone(),
                quiet: Duration::from_secs(self.dicom_quiet),
                least_slices: self.dicom_least_slices,
                ..DicomOptions::new(title, port, results)
            }))
        }
    }
}
