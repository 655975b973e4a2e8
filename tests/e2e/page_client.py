"""Requests to the page of a server, for page.bats."""
import http.client
import json
import urllib.parse


class Page:
    def __init__(self, url):
        """url: as it was logged, with its token."""
        parts = urllib.parse.urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.token = parts.query.split("=", 1)[1]

    def get(self, path, method="GET", token=True, **headers):
        """The reply, whose text is in its `text`."""
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if token:
            headers.setdefault("Authorization", "Bearer " + self.token)
        to = http.client.HTTPConnection(self.host, self.port, timeout=60)
        to.request(method, path, headers=headers)
        reply = to.getresponse()
        reply.text = reply.read().decode()
        to.close()
        return reply

    def state(self, job=None):
        path = "/api/state"
        if job is not None:
            path += "?job=" + urllib.parse.quote(job, safe="")
        reply = self.get(path)
        assert reply.status == 200, reply.text
        return json.loads(reply.text)
