"""HTTPS with a certificate of one's own: browsers randomize only on pages that came that way."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from support.service import plain_plan


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    return certificate, private


def test_the_service_speaks_https_and_nothing_else(tmp_path: Path, tacit_on_path: Path):
    certificate, private = make_certificate(tmp_path)
    plain_plan().save(tmp_path / "plan.json")
    words = ["serve", str(tmp_path / "plan.json"), "--data", str(tmp_path / "data"), "--port", "0", "--json"]
    keys = ["--certificate", str(certificate), "--private-key", str(private)]
    process = subprocess.Popen([tacit_on_path / "tacit", *words, *keys], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        said = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        assert said["url"].startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(said["surveys"][0]["page"], context=trusting, timeout=20) as response:
            assert response.status == 200
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            urllib.request.urlopen(said["url"], timeout=20)
        with pytest.raises(OSError, match=r".+"):
            urllib.request.urlopen(said["url"].replace("https", "http"), timeout=20)
    finally:
        process.terminate()
        process.wait(timeout=20)
        process.stdout.close()
