"""Connections that end before a request is sent, since a server's certificate is refused or it speaks no TLS.

Source: X509_verify_cert_error_string of OpenSSL, and what urllib3 and libcurl (of pyarrow) say of names.
"""

from __future__ import annotations

import re
from typing import Final

_REASONS: Final = (
    (r"certificate has expired", "its certificate has expired: have it renewed"),
    (r"not yet valid", "its certificate is not valid yet: check this machine's clock, and the certificate's dates"),
    (
        r"hostname .* doesn't match|Hostname mismatch|IP address mismatch|no appropriate (subjectAltName|commonName)"
        r"|certificate subject name .*does not match|no alternative certificate subject name matches",
        "its certificate is for another name: write the name that it is for into {address}, or have one made for this",
    ),
    (
        r"certificate verify failed|SSL peer certificate or SSH remote key was not OK",
        "its certificate is of no authority that this machine trusts: name the file with its authority's certificates "
        "in {file}",
    ),
    (
        r"wrong version number|record layer failure|unknown protocol",
        "it speaks no TLS at this port: write http:// into {address}, or another port",
    ),
    (
        r"(SSL validation failed for|TLS CA certificate bundle).*(No such file|Permission denied|invalid path)",
        "the file with certificates that {file} names cannot be read here",
    ),
)


def certificate_problem(why: str, *, address: str, file: str) -> str | None:
    """Return what is wrong with a server's TLS, and what to do; None for any other error.

    Nothing was sent then: these are found while the connection is made.

    :param why: the words of an error.
    :param address: the variable that names the server; `file`: the one that names certificates to trust.
    """
    for pattern, advice in _REASONS:
        if re.search(pattern, why, re.IGNORECASE):
            return advice.format(address=address, file=file)
    return None
