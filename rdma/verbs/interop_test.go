//go:build rdma && linux && cgo

package verbs

import (
	"bytes"
	"context"
	"encoding/binary"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanfaremq/fanfare/internal/testenv"
	"github.com/fanfaremq/fanfare/rdma"
	"github.com/fanfaremq/fanfare/rdma/rdmatest"
)

// mckey starts rdma-core's multicast program on a host, for 10 messages of 100 bytes to or from a group.
func mckey(t *testing.T, h testHost, g rdma.Addr, args ...string) (done chan error, out *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*testTimeout)
	t.Cleanup(cancel)
	out = &bytes.Buffer{}
	cmd := exec.CommandContext(ctx, "mckey", append([]string{"-m", g.String(), "-b", h.addr.String()}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		testenv.Skip(t, "cannot run mckey: %v; it is part of rdmacm-utils", err)
	}
	done = make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return done, out
}

// testToMckey sends to mckey, which receives 10 messages. It does not report when it has joined, so more are sent until
// it ends.
func testToMckey(t *testing.T, hosts []testHost) {
	if len(hosts) < 2 {
		t.Skip("two ports are needed")
	}
	r := newRig(t, hosts[0])
	ah := r.join(testGroup(121), rdma.JoinSendOnlyFullMember)
	done, out := mckey(t, hosts[1], testGroup(121))
	sent := 0
	for {
		select {
		case err := <-done:
			if err != nil || !strings.Contains(out.String(), "return status 0") || sent < 10 {
				t.Errorf("after %d messages: %v\n%s", sent, err, out)
			}
			return
		default:
		}
		wr := r.sendWR(ah, strings.Repeat("m", 100))
		wr.Opcode, wr.Imm = rdma.OpSendWithImm, [4]byte{1, 2, 3, 4}
		_, err := r.qp.PostSend([]rdma.SendWR{wr})
		r.must(err)
		r.poll(1)
		sent++
		time.Sleep(10 * time.Millisecond)
	}
}

// testFromMckey receives from mckey, which is a full or a send-only member.
func testFromMckey(t *testing.T, hosts []testHost, sendOnly bool) {
	if len(hosts) < 2 {
		t.Skip("two ports are needed")
	}
	r := newRig(t, hosts[0])
	g := testGroup(122)
	args := []string{"-s"}
	if sendOnly {
		g = testGroup(123)
		args = append(args, "-o")
	}
	trace := newIGMPTrace(t, hosts)
	r.join(g, rdma.JoinFullMember)
	r.post()
	done, out := mckey(t, hosts[1], g, args...)
	for _, wc := range r.poll(10) {
		if wc.Status != rdma.WCSuccess || wc.ByteLen != rdma.GRHBytes+100 || wc.Flags&rdma.WCWithImm == 0 || rdma.QPN(binary.BigEndian.Uint32(wc.Imm[:])) != wc.SrcQPN {
			t.Errorf("completion %+v, want success, 100 bytes and the sender's QPN as immediate data", wc)
		}
	}
	if err := <-done; err != nil {
		t.Fatalf("mckey failed: %v\n%s", err, out)
	}
	if wcs := r.poll(0); len(wcs) > 0 {
		t.Errorf("more than 10 messages: %+v", wcs)
	}
	reported := slices.ContainsFunc(trace.take(), func(rec rdmatest.Record) bool {
		return rec.Kind == rdmatest.IGMPReport && rec.Host == 1 && rec.MGID.IP() == g.IP
	})
	if reported == sendOnly {
		t.Errorf("send-only %v, and an IGMP report was sent: %v, want %v", sendOnly, reported, !sendOnly)
	}
}
