"""Mutants of C sources: the lines that can have one, and the classic operators. It
knows the project's layout of statements (tabs, one per line), and no test."""
import bisect
import re

NOISE = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|'
    r'^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
# Printed and logged text is not asserted word by word.
TEXT = re.compile(r"\b(?:err_set|err_note|log_(?:error|warn|info|debug)|"
                  r"progress_say|printf|fprintf)\(")
TYPES = r"(?:struct|union|enum|const|static|unsigned|int|char|bool|float|" \
    r"double|void|long|short|size_t|ssize_t|pid_t|off_t|FILE|\w+_t)\b"
NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">": "<=", "<=": ">",
           ">=": "<"}
EDGE = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SWAPPED = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*",
           "+=": "-=", "-=": "+="}
JOINED = {"&&": "||", "||": "&&"}
PLACE = r"\**\(?\w+\)?(?:(?:->|\.)\w+|\[[^]]*\])*"


class Mutant:
    """The text from start to end of a file becomes new."""

    def __init__(self, path, source, start, end, new, operator):
        self.path, self.operator = path, operator
        self.source, self.change = source, (start, end, new)
        self.line = source.count("\n", 0, start) + 1
        head = source.rfind("\n", 0, start) + 1
        old_tail = source.find("\n", end)
        self.before = source[head:old_tail]
        self.after = source[head:start] + new + source[end:old_tail]

    def text(self):
        start, end, new = self.change
        return self.source[:start] + new + self.source[end:]

    def diff(self):
        return "\n".join(
            ["-" + line for line in self.before.split("\n")] +
            ["+" + line for line in self.after.split("\n")])

    def key(self):
        return "%s:%d %s %s" % (self.path, self.line, self.operator,
                                " ".join(self.after.split()))


def closing(code, at):
    """The position after the bracket that closes the bracket at `at`."""
    depth = 0
    for i in range(at, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(code)


def blank(code, start, end):
    return code[:start] + re.sub(r"[^\n]", " ", code[start:end]) + code[end:]


class Source:
    """A file; code is its text with everything outside function bodies blanked."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        code = text
        for m in NOISE.finditer(text):
            keep = m.group()[0] in "\"'"  # an argument, not nothing
            code = blank(code, m.start() + keep, m.end() - keep)
        self.bodies, at = [], 0
        while (at := code.find("{", at)) >= 0:
            end = closing(code, at)
            if code[:at].rstrip().endswith(")"):
                self.bodies.append((at + 1, end - 1))
            at = end
        end = 0
        for body in self.bodies + [(len(code), len(code))]:
            code = blank(code, end, body[0])
            end = body[1]
        for m in TEXT.finditer(code):
            code = blank(code, m.start(), closing(code, m.end() - 1))
        # in a declaration, only the initializer
        for m in re.finditer(r"^[ \t]+" + TYPES + r"[^;=({]*((?:=[ \t]*)?\{)?",
                             code, re.M):
            end = closing(code, m.end() - 1) if m.group(1) else m.end()
            code = blank(code, m.start(), end)
        self.code = code
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def line(self, at):
        return bisect.bisect_right(self.starts, at)

    def span(self, line):
        """The lines of the statement or head that the line is in."""
        at = self.starts[line - 1]
        first = max(self.code.rfind(c, 0, at) for c in ";{}")
        ends = [e for c in ";{}" if (e := self.code.find(c, at)) >= 0]
        return range(self.line(first) + 1 if first >= 0 else line,
                     max(line, self.line(min(ends)) if ends else line) + 1)

    def function(self, line):
        for start, end in self.bodies:
            if self.line(start) <= line <= self.line(end):
                return range(self.line(start), self.line(end) + 1)
        return range(line, line + 1)

    def lines(self):
        """Numbers of the lines that have a mutant."""
        return [i + 1 for i, text in enumerate(self.code.split("\n"))
                if text.strip(" \t{};") and any(self.mutants(i + 1))]

    def mutants(self, line):
        start, end = self.starts[line - 1], self.starts[line] - 1
        return [Mutant(self.path, self.text, *change)
                for change in self.changes(start, end)]

    def changes(self, start, end):
        """(start, end, new text, operator) of what begins in the line."""
        code = self.code

        def each(pattern):
            for m in re.finditer(pattern, code[start:end]):
                yield m.group(1), start + m.start(1), start + m.end(1)
        for op, s, e in each(r" (==|!=|<=|>=|<|>)(?= |$)"):
            yield s, e, NEGATED[op], "negate comparison"
            if op in EDGE:
                yield s, e, EDGE[op], "move boundary"
        for op, s, e in each(r"(?<=[\w)\]]) ([-+*/%]|[-+]=)(?= |$)"):
            yield s, e, SWAPPED[op], "swap arithmetic"
        for op, s, e in each(r" (&&|\|\|)(?= |$)"):
            yield s, e, JOINED[op], "swap and, or"
        for n, s, e in each(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)(?![\w.])"):
            octal = n[0] == "0" and n[1:].isdigit()
            value = int(n, 8 if octal else 0)
            form = "0%o" if octal else "%d"
            yield s, e, form % (value + 1), "constant + 1"
            yield s, e, form % (value - 1), "constant - 1"
        for _, s, e in each(r"\b(?:if|while) (\()"):
            e = closing(code, s)
            yield s, e, "(!" + self.text[s:e] + ")", "negate condition"
        for jump, s, e in each(r"\b(break;|continue;|goto \w+;)"):
            yield s, e, ";", "delete jump"
        yield from self.statement(start, end)

    def statement(self, start, end):
        code = self.code
        text = code[start:end]
        stop = code.find(";", start)
        m = re.match(r"[ \t]*return (?=\S)", text)
        if m and stop > start:
            value = self.text[start + m.end():stop]
            new = "-1" if value == "0" else "0"
            new = {"true": "false", "false": "true"}.get(value, new)
            if value != new and code[start + m.end():stop].strip():
                yield start + m.end(), stop, new, "return " + new
        call = re.match(r"[ \t]*(?:\(void\))?(?!if|for|while|switch|return|do|"
                        r"sizeof)\w+\(", text)
        put = re.match(r"[ \t]*" + PLACE + r" ?[-+*/|&^]?=(?!=)", text) or \
            re.match(r"[ \t]*" + PLACE + r"(?:\+\+|--);", text)
        if call and "free(" in call.group():
            return  # nobody sees a leak here; `make check SAN=address` does
        if call and closing(code, start + call.end() - 1) == stop or \
                put and stop > 0:
            s = start + len(text) - len(text.lstrip())
            yield s, stop + 1, ";", "drop " + ("call" if call else
                                               "assignment")
