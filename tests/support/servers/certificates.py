"""Certificates for servers of tests: an authority of their own, and what it signs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """An authority whose certificate is in a file.

    :param certificate: its path.
    """

    certificate: Path
    _issuer: x509.Name
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def made(cls, folder: Path, name: str = "holdfast tests") -> Authority:
        """Make an authority, with its certificate in a folder."""
        key, issuer = ec.generate_private_key(ec.SECP256R1()), _named(name)
        public = key.public_key()
        signed = (
            _begun(issuer, issuer, public, days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(key, hashes.SHA256())
        )
        path = folder / f"{name.replace(' ', '-')}.pem"
        path.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        return cls(path, issuer, key)

    def server(self, folder: Path, *, host: str = "127.0.0.1", days: int = 1) -> tuple[Path, Path]:
        """Return the paths of a server's certificate and of its key.

        :param host: the name or the address that it is for.
        :param days: until it ends; less than none for one that has ended.
        """
        try:
            name: x509.GeneralName = x509.IPAddress(ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        return self._signed(folder, host, name, days)

    def client(self, folder: Path, user: str) -> tuple[Path, Path]:
        """Return the paths of a client's certificate and of its key, which its owner alone may read.

        :param user: whose it is.
        """
        return self._signed(folder, user, x509.DNSName(user), 1)

    def _signed(self, folder: Path, subject: str, name: x509.GeneralName, days: int) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        signed = (
            _begun(_named(subject), self._issuer, key.public_key(), days=days)
            .add_extension(x509.SubjectAlternativeName([name]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        paths = folder / f"{subject}{days}.crt", folder / f"{subject}{days}.key"
        paths[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        paths[1].chmod(0o600)
        return paths


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, *, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=30))
        .not_valid_after(now + timedelta(days=days))
    )
