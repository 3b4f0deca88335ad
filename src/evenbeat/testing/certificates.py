"""Certificates for tests: an authority of our own, and what it signs, made by the program openssl."""

import shutil
import subprocess
from pathlib import Path
from typing import Final

_DAYS: Final = "2"


class CertificateAuthority:
    """Signs certificates; its files are in `folder`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        if shutil.which("openssl") is None:
            raise FileNotFoundError("no openssl here, which makes certificates for tests")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate: Final = folder / f"{name}.pem"
        self._key = folder / f"{name}.key"
        _openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", _DAYS),
            *("-subj", f"/CN={name}", "-keyout", str(self._key), "-out", str(self.certificate)),
            *("-addext", "keyUsage = critical, keyCertSign, cRLSign"),  # Python 3.13 asks for it
        )

    def sign(self, name: str, *addresses: str) -> tuple[Path, Path]:
        """The files of a certificate and its key; `addresses` as in IP:127.0.0.1 or DNS:localhost."""
        certificate, key, request = (self._folder / f"{name}.{ending}" for ending in ("pem", "key", "csr"))
        _openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        extensions = self._folder / f"{name}.ext"
        names = [f"subjectAltName = {', '.join(addresses)}"] if addresses else []
        identifiers = ["subjectKeyIdentifier = hash", "authorityKeyIdentifier = keyid"]
        extensions.write_text("\n".join([*names, *identifiers, ""]))
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", _DAYS, "-extfile", str(extensions), "-out", str(certificate)),
        )
        key.chmod(0o600)
        return certificate, key


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)  # noqa: S603, S607
