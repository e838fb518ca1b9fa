"""Keys, certificates and kubeconfigs, made anew for every cluster."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fairlead_dev.cluster import layout
from fairlead_dev.cluster.layout import NODES, Layout
from fairlead_dev.cluster.machine import shell

VALID_DAYS = 365


@dataclass(frozen=True, slots=True)
class Certificate:
    """One key pair signed by the cluster's authority."""

    name: str
    subject: str
    alternative_names: str = ""


def _api_server_names() -> str:
    addresses = (layout.CONTROL_PLANE_ADDRESS, "127.0.0.1", layout.KUBERNETES_SERVICE_ADDRESS)
    service = "kubernetes.default.svc"
    names = ("localhost", "kubernetes", "kubernetes.default", service, f"{service}.{layout.CLUSTER_DOMAIN}")
    return ",".join([*(f"IP:{address}" for address in addresses), *(f"DNS:{name}" for name in names)])


def certificates() -> list[Certificate]:
    """Every certificate but the authority's."""
    kubelets = [
        Certificate(f"kubelet-{node.name}", f"/O=system:nodes/CN=system:node:{node.name}", f"DNS:{node.name},IP:{node.management_address}")
        for node in NODES
    ]
    return [
        Certificate("apiserver", "/CN=kube-apiserver", _api_server_names()),
        Certificate("apiserver-kubelet", "/O=system:masters/CN=apiserver-kubelet-client"),
        Certificate("front-proxy", "/CN=front-proxy-client"),
        *(Certificate(name, subject) for name, subject in _CLIENTS.items()),
        *kubelets,
    ]


_CLIENTS = {
    "admin": "/O=system:masters/CN=admin",
    "controller-manager": "/CN=system:kube-controller-manager",
    "scheduler": "/CN=system:kube-scheduler",
    "proxy": "/CN=system:kube-proxy",
    "multus": f"/CN={layout.MULTUS_USER}",
}


def create(paths: Layout) -> None:
    """Make the authority, all certificates, the key of service accounts and one kubeconfig per client."""
    paths.keys.mkdir(parents=True, mode=0o700)
    paths.kubeconfigs.mkdir(parents=True, mode=0o700)
    _openssl_certificate(paths, Certificate("ca", "/CN=fairlead-cluster-ca"), authority=True)
    with ThreadPoolExecutor(max_workers=4) as pool:
        service_accounts = pool.submit(_service_account_key, paths)
        list(pool.map(lambda certificate: _openssl_certificate(paths, certificate), certificates()))
        service_accounts.result()
    for name in (*_CLIENTS, *(f"kubelet-{node.name}" for node in NODES)):
        _write_kubeconfig(paths, name)


def _openssl_certificate(paths: Layout, certificate: Certificate, *, authority: bool = False) -> None:
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(VALID_DAYS)]
    words += ["-subj", certificate.subject, "-keyout", f"{certificate.name}.key", "-out", f"{certificate.name}.crt"]
    if authority:
        words += ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]
    else:
        words += ["-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
        words += ["-addext", "keyUsage=digitalSignature,keyEncipherment", "-addext", "extendedKeyUsage=clientAuth,serverAuth"]
        if certificate.alternative_names:
            words += ["-addext", f"subjectAltName={certificate.alternative_names}"]
    shell.run(words, cwd=paths.keys)


def _service_account_key(paths: Layout) -> None:
    shell.run(["openssl", "genrsa", "-out", "service-accounts.key", "2048"], cwd=paths.keys)
    shell.run(["openssl", "rsa", "-in", "service-accounts.key", "-pubout", "-out", "service-accounts.pub"], cwd=paths.keys)


def _write_kubeconfig(paths: Layout, name: str) -> None:
    def encoded(file: str) -> str:
        return base64.b64encode((paths.keys / file).read_bytes()).decode()

    server = f"https://{layout.CONTROL_PLANE_ADDRESS}:{layout.API_SERVER_PORT}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "fairlead",
        "contexts": [{"name": "fairlead", "context": {"cluster": "fairlead", "user": name}}],
        "clusters": [{"name": "fairlead", "cluster": {"server": server, "certificate-authority-data": encoded("ca.crt")}}],
        "users": [{"name": name, "user": {"client-certificate-data": encoded(f"{name}.crt"), "client-key-data": encoded(f"{name}.key")}}],
    }
    path = paths.kubeconfigs / f"{name}.conf"
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=1))
