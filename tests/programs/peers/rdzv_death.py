"""rdzv_death.py memory|file|etcd DDPRDZV [ETCD]: all that a ddprdzv has answered
outlives it. Each row of the table does one kind of thing. Four servers, which never
died, were killed and started again, were killed twice, or compacted their journal
before they were killed, must give the same answers afterwards: to RESUME, to STATUS, to the last request once more, to
reads of the store, and to what comes next. Prints a line for each difference, and at
the end how many rows there were. Works in the current folder.
"""
import concurrent.futures
import faulthandler
import re
import struct
import sys
import traceback

from rdzv_killed import Server
from rdzv_wire import *

faulthandler.dump_traceback_later(110, exit=True) # what hangs
place, ddprdzv = sys.argv[1:3]
etcd = sys.argv[3] if place == 'etcd' else None
# ---- the table: do it, and return what looks at it afterwards

rows = {}


def row(f):
    rows[f.__name__] = f
    return f


@row
def join_first_of_two(j):
    j.agent('n0', nproc=3, nodes=2)

    def look():
        a, said = j.resume('n0', began=0)
        b = j.agent('n1', nproc=2, nodes=2)
        return said, b.started(), a.started()
    return look


@row
def join_asked_for_a_rank(j):
    j.agent('n0', nodes=2, rank=1)

    def look():
        a, said = j.resume('n0', began=0)
        c = j.keep(Agent(j, 'n2'))
        refused = c.join(nodes=2, rank=1)
        b = j.agent('n1', nodes=2)
        return said, refused[0], b.started(), a.started()
    return look


@row
def join_all_and_start(j):
    a, b = j.agent('n0', nodes=2), j.agent('n1', nodes=2)
    a.started(), b.started()

    def look():
        # one has heard of its START, one has not
        return j.resume('n0')[1], j.resume('n1', began=0, more=START)[1]
    return look


@row
def last_call_is_out(j):
    a = j.agent('n0', nodes=2, least=1, call_ms=600000)

    def look():
        a, said = j.resume('n0', began=0)
        state = a.await_notice(STATE)[1]
        calls = struct.unpack_from('<I', state, 17)[0] > 0
        b = j.agent('n1', nodes=2, least=1, call_ms=600000)
        return said, calls, b.started(), a.started()
    return look


@row
def last_call_is_over(j):
    j.agent('n0', nodes=2, least=1, call_ms=1).started()
    return lambda: [j.resume('n0')[1], j.resume('n0', began=0, more=START)[1]]


@row
def spare(j):
    for i in 0, 1:
        j.agent('n%d' % i, nodes=2)
    j.conns[0].started()
    s = j.agent('s', nodes=2)
    s.await_notice(STATE)

    def look():
        said = [j.resume(n)[1] for n in ('n0', 'n1')]
        s, more = j.resume('s', began=0)
        state = s.await_notice(STATE)[1]
        return said, more, state
    return look


@row
def newcomer_regroups(j):
    a = j.agent('n0', nodes=2, least=1, call_ms=1)
    a.started()
    b = j.agent('n1', nodes=2, least=1, call_ms=1)
    a.ended()

    def look():
        c, said = j.resume('n0', more=END)
        d, more = j.resume('n1', began=0)
        c.join(nodes=2, least=1, call_ms=1)
        return said, more, c.started(), d.started()
    return look


@row
def exited_with_0(j):
    a = j.running(nproc=3)
    a.exited(2)
    a.exited(1)
    j.settle(a)

    def look():
        b, said = j.resume('n0')
        w = j.worker(0, 7)
        fate = w.ask(FATE, pack('II', 1, 1000))
        gather = w.ask(GATHER, pack('sIIs', 'g', 3, 2000, 'v'))
        b.exited(0)
        return said, fate, gather, b.ended()
    return look


@row
def left_early(j):
    a = j.running(nproc=2)
    a.exited(1, early=1)
    j.settle(a)

    def look():
        a, said = j.resume('n0')
        a.exited(0, code=3, missed='all_reduce')
        return said, a.ended()
    return look


@row
def failed_and_restarts(j):
    a = j.running(nproc=2, restarts=1)
    a.exited(1, code=3)
    a.ended()

    def look():
        # what it was not told, and once more, what it was
        b, said = j.resume('n0', more=END)
        c, more = j.resume('n0', ended=1)
        c.join(nproc=2, restarts=1)
        start = c.started()
        c.exited(0, code=4, round_=1)
        return said, more, start, c.ended()
    return look


@row
def second_round(j):
    a = j.running(nproc=2, restarts=2)
    j.worker(0, 7).ask(SET, pack('ss', 'k', 'of round 0'))
    a.exited(1, signal=9)
    a.ended()
    a.join(nproc=2, restarts=2)
    a.started()

    def look():
        said = j.resume('n0', round_=1)[1]
        return said, keys(j.worker(0, 8, 1), 'k'), j.worker(0, 9, 0).code
    return look


@row
def failed_for_good(j):
    a = j.running(nproc=2)
    a.exited(1, code=5)
    a.ended()
    return lambda: [j.resume('n0', more=END)[1], j.worker(0, 7).text]


@row
def all_exited(j):
    a = j.running(nproc=2)
    a.exited(0)
    a.exited(1)
    a.ended()
    return lambda: [j.resume('n0', more=END)[1]]


@row
def could_not_start(j):
    a = j.running()
    a.notice(FAILED, pack('Iis', 0, 66, 'no such file'))
    a.ended()
    return lambda: [j.resume('n0', more=END)[1]]


@row
def left_and_the_rest_goes_on(j):
    agents = [j.agent('n%d' % i, nodes=3, least=1, call_ms=600000)
              for i in range(3)]
    for a in agents:
        a.started()
    agents[1].notice(LEAVE, pack('is', 15, 'bye'))
    agents[0].ended(), agents[2].ended()

    def look():
        a, said = j.resume('n0', more=END)
        c, more = j.resume('n2', more=END)
        gone = j.resume('n1', more=END)[1]
        for x in a, c:
            x.join(nodes=3, least=1, call_ms=600000)
        return said, more, gone, a.started(), c.started()
    return look


@row
def lost_and_comes_late(j):
    agents = [j.agent('n%d' % i, nodes=3, least=1, call_ms=600000)
              for i in range(3)]
    for a in agents:
        a.started()
    agents[1].close()
    agents[0].ended(), agents[2].ended()

    def look():
        known = [j.resume('n%d' % i) for i in range(3)]
        for a, _ in known:
            a.join(nodes=3, least=1, call_ms=600000)
        return [(said[2][0][1][0], a.started()) for a, said in known]
    return look


@row
def left_and_it_ended(j):
    a, b = j.agent('n0', nodes=2), j.agent('n1', nodes=2)
    a.started(), b.started()
    b.notice(LEAVE, pack('is', 2, 'bye'))
    a.ended()
    return lambda: [j.resume('n0', more=END)[1], j.resume('n1', more=END)[1]]


def stop(level):
    def do(j):
        a = j.running(nproc=2)
        a.notice(STOP, pack('bbbiIs', level, 0, 1, 12, 1500, 'preempted'))
        a.await_notice(STOP)

        def look():
            b, said = j.resume('n0', more=STOP)
            b.exited(0, signal=15, stopped=1)
            b.exited(1, signal=15, stopped=1)
            return said, b.ended()
        return look
    return do


rows['stop_warned'] = stop(1)
rows['stop_all'] = stop(2)
rows['stop_cut'] = stop(3)


@row
def stop_and_one_has_ended(j):
    a = j.running(nproc=2)
    a.notice(STOP, pack('bbbiIs', 2, 1, 1, 10, 1500, 'its time is over'))
    a.await_notice(STOP)
    a.exited(0, signal=15, stopped=1)
    j.settle(a)

    def look():
        b, said = j.resume('n0', more=STOP)
        b.exited(1, code=1)
        return said, b.ended()
    return look


@row
def lost_and_it_ended(j):
    a, b = j.agent('n0', nodes=2), j.agent('n1', nodes=2)
    a.started(), b.started()
    b.close()
    a.ended()
    return lambda: [j.resume('n0', more=END)[1], j.resume('n1')[1]]


@row
def lost_and_its_rank_is_kept(j):
    how = {'nodes': 4, 'least': 1, 'call_ms': 600000}
    agents = [j.agent('n%d' % i, **how) for i in range(4)]
    for a in agents:
        a.started()
    agents[1].close()
    for a in agents[0], agents[2], agents[3]:
        a.ended()
    agents[2].close()
    while b'(n2,' in j.status()[0][0][15]: # between two rounds no node is listed
        pass

    def look():
        a, d = j.resume('n0', more=END)[0], j.resume('n3', more=END)[0]
        c, b = j.agent('again', host='n2', **how), j.agent('new', **how)
        for x in a, d:
            x.join(**how)
        return [x.started() for x in (a, b, c, d)]
    return look


@row
def gone_and_its_end_is_known(j):
    a = j.running()
    a.exited(0, code=9)
    a.ended()
    a.close()
    while j.status():
        pass
    return lambda: [j.worker(0, 7).text]


@row
def name_used_again(j):
    a = j.running()
    a.exited(0, code=9)
    a.ended()
    j.agent('n1', nproc=2).started()

    def look():
        old = j.resume('n0', more=END)[1]
        return old, j.resume('n1', round_=1, began=0, more=START)[1]
    return look


def store(request, *before, read=('k', 'l')):
    """What a session did last, done once though it is asked for twice."""
    def do(j):
        j.running()
        w = j.worker(0, 7)
        for r in before:
            w.ask(*r)
        first = w.ask(*request, number=99)

        def look():
            again = j.worker(0, 7)
            once_more = again.ask(*request, number=99)
            assert once_more == first, (first, once_more)
            return once_more, keys(again, *read)
        return look
    return do


k_is_5 = (SET, pack('ss', 'k', '5'))
rows['set'] = store(k_is_5)
rows['set_nothing_to_nothing'] = store((SET, pack('ss', '', '')), read=('', 'k'))
rows['set_bytes'] = store((SET, pack('ss', b'\0\xff', bytes(range(256)))),
                          read=(b'\0\xff',))
rows['add'] = store((ADD, pack('sq', 'k', -7)), k_is_5)
rows['add_least'] = store((ADD, pack('sq', 'k', -2 ** 63)))
rows['compare_set'] = store((COMPARE_SET, pack('sss', 'k', '5', '6')), k_is_5)
rows['compare_set_new'] = store((COMPARE_SET, pack('sss', 'k', '', 'new')))
rows['compare_set_not'] = store((COMPARE_SET, pack('sss', 'k', '4', '6')), k_is_5)
rows['append'] = store((APPEND, pack('ss', 'k', 'more')), k_is_5)
rows['delete'] = store((DELETE, pack('s', 'k')), k_is_5)
rows['delete_nothing'] = store((DELETE, pack('s', 'k')))
rows['multi_set'] = store((MULTI_SET, pack('I', 2) + pack('ssss', 'k', '1', 'l', '2')),
                          k_is_5)


def meeting(type_, body, then=None, others=()):
    """Both came, and one has lost its answer; the other may have gone on."""
    def do(j):
        j.running()
        ws = [j.worker(r, 7 + r) for r in (0, 1)]
        for r, w in enumerate(ws):
            w.send(type_, body(r), 99)
        first = [w.reply(99) for w in ws]
        for request in others:
            ws[1].ask(*request)

        def look():
            again = j.worker(0, 7)
            said = [again.ask(type_, body(0), 99)]
            assert said[0] == first[0], (first, said)
            if then:
                said.append(again.ask(*then))
            if not others:
                said.append(j.worker(1, 8).ask(type_, body(1), 99))
                assert said[-1] == first[1], (first, said)
            return said
        return look
    return do


gather = lambda r: pack('sIIs', 'g', 2, 60000, 'of %d' % r)
share = lambda r: pack('sIIshssbI', 'g', 2, 60000, '', 0, '', 'of %d' % r, 0, 0)
share_of_nodes = lambda r: pack('sIIshssbI', 'g', 2, 60000, '', 0, '', 'of %d' % r, 1, 1 - r)
rows['barrier'] = meeting(BARRIER, lambda r: pack('sII', 'b', 2, 60000))
rows['gather'] = meeting(GATHER, gather)
rows['gather_one_went_on'] = meeting(GATHER, gather, others=[k_is_5])
rows['share'] = meeting(SHARE, share)
rows['share_of_nodes'] = meeting(SHARE, share_of_nodes, then=(SHARED_LIST, b''))
rows['share_and_shared_list'] = meeting(SHARE, share, then=(SHARED_LIST, b''))


@row
def gathers_of_several(j):
    j.running(nproc=3)
    ws = [j.worker(r, 7 + r) for r in range(3)]

    def come(number, key, *ranks):
        for r in ranks:
            ws[r].send(GATHER, pack('sIIs', key, len(ranks), 60000,
                                    '%s %d' % (key, r)), number)
        for r in ranks:
            ws[r].reply(number)
    come(3, 'first', 0, 1, 2)
    come(2, 'second', 0, 1)

    def look():
        said = []
        for r, key, n in (0, 'second', 2), (1, 'second', 2), (2, 'first', 3):
            said.append(j.worker(r, 7 + r).ask(
                GATHER, pack('sIIs', key, n, 60000, '?'), n))
            assert said[-1][0] == REPLY and key.encode() in said[-1][1], said
        return said
    return look


# ---- PyTorch's clients, who have a store in a server that is ddprun's own

def torch(*requests, reads=()):
    def do(j):
        a = j.agent('n0', nproc=2, torch=1)
        start = Reader(a.started()).take('IIIIIIIIIshb')
        port, is_ours = start[-2:]
        assert is_ours
        c = Torch(j, port)
        for r in requests:
            c.s.sendall(r)
        first = [getattr(c, what)() for what in reads]
        c.all_keys = c.s.sendall(t(T_LEN, 'none'))
        c.number()

        def look():
            said = j.resume('n0', began=0, more=START)[1]
            said[-1] = [n for n in said[-1] if n[0] != START]
            return first, said, Torch(j, port).all()
        return look
    return do


if not etcd:
    k5 = t(T_SET, 'k', '5')
    rows['torch_set'] = torch(k5)
    rows['torch_add'] = torch(k5, t(T_ADD, 'k', number=-7), reads=['number'])
    rows['torch_compare_set'] = torch(k5, t(T_COMPARE_SET, 'k', '5', '6'),
                                      reads=['text'])
    rows['torch_append'] = torch(k5, t(T_APPEND, 'k', 'more'))
    rows['torch_delete'] = torch(k5, t(T_SET, 'l', '1'), t(T_DELETE, 'k'),
                                 reads=['number'])
    rows['torch_multi_set'] = torch(t(T_MULTI_SET, 'a', '1', 'b', '2', count=2))
    rows['torch_queue'] = torch(t(T_PUSH, 'q', 'one'), t(T_PUSH, 'q', 'two'),
                                t(T_PUSH, 'q', 'three'), t(T_POP, 'q'),
                                reads=['number', 'text'])
    rows['torch_barrier'] = torch(t(T_BARRIER, 'b', number=1),
                                  reads=['byte'])


# ---- ways to die

def nothing(server, job):
    pass


def once(server, job):
    server.restart()


def twice(server, job):
    server.restart()
    # it has read all, and written it again, when it answers
    Job(server, job).status()
    server.restart()


def compacted(server, job):
    server.compact(job)
    if not etcd:
        server.compact('ballast again') # one snapshot after the other
    server.restart()


ways = [nothing, once, twice, compacted]
# each is 5 MiB; with etcd the second server also begins with a snapshot
compacted_in_etcd = ('exited_with_0', 'second_round', 'multi_set', 'append',
                     'gather_one_went_on', 'stop_all')


def run(name, way):
    """What each row sees, {row: [...]}: one server for all, in etcd one for each."""
    def see(server, jobs, looks):
        seen = {}
        for r in jobs:
            try:
                seen[r] = [looks[r](), jobs[r].status()]
            except (Closed, AssertionError, OSError, struct.error):
                seen[r] = traceback.format_exc()
        return seen

    def serve(server_name, some):
        server = Server(server_name, place, ddprdzv, etcd)
        jobs = {r: Job(server, server_name if etcd else r) for r in some}
        looks = {r: rows[r](jobs[r]) for r in some}
        way(server, server_name if etcd else 'ballast')
        seen = see(server, jobs, looks)
        server.kill()
        return seen

    if not etcd:
        return serve(name, list(rows))
    def serve_one(r):
        try:
            return serve(r + name[-2:], [r])
        except (Closed, AssertionError, OSError):
            return {r: traceback.format_exc()}

    seen = {}
    some = compacted_in_etcd if way is compacted else rows
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(serve_one, some):
            seen.update(got)
    return seen


def plain(seen):
    """Servers have ports of their own, and in etcd jobs have their server's name."""
    return re.sub('-[0-3]', '-N', re.sub('127.0.0.1:[0-9]+', 'PLACE', repr(seen)))


def main():
    want = run('server-0', nothing)
    wrong = 0
    for r, seen in want.items():
        if isinstance(seen, str):
            wrong += 1
            print('%s, never died: %s' % (r, seen))
    for i, way in enumerate(ways[1:], 1):
        seen = run('server-%d' % i, way)
        for r in seen:
            if plain(seen[r]) != plain(want[r]):
                wrong += 1
                print('%s, %s:\n    %s\n  never died:\n    %s' %
                      (r, way.__name__, seen[r], want[r]))
    print('%d rows, %d ways, %d differences' % (len(rows), len(ways) - 1, wrong))
    sys.exit(wrong != 0)


main()
