//go:build linux

package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the system's monotonic clock in nanoseconds: the same for all
// processes of this host. The system is asked once; Go's own clock, which is
// the same one, goes on from there without a system call.
func monotonic() int64 { return clockBase + int64(time.Since(clockStart)) }

var clockBase, clockStart = func() (int64, time.Time) {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano(), time.Now()
}()

// nap sleeps as short as the kernel can, or a fifth of a millisecond.
func nap(long bool) {
	ts := unix.Timespec{Nsec: 1000}
	if long {
		ts.Nsec = 200_000
	}
	unix.Nanosleep(&ts, nil)
}

// rawRTT is the round trip of a datagram between two processes with blocking
// sockets on loopback: what the machine can do.
func rawRTT() (*result, error) {
	c, err := start("echo")
	if err != nil {
		return nil, err
	}
	defer c.stop()
	line, err := c.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	peer, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, fmt.Errorf("echo process said %q", line)
	}
	fd, err := socket()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	to := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: peer}
	r := &result{h: newHistogram()}
	b := make([]byte, *size)
	for i := range 5000 {
		t := monotonic()
		if err := unix.Sendto(fd, b, 0, to); err != nil {
			return nil, err
		}
		if _, _, err := receive(fd, b); err != nil {
			return nil, err
		}
		if i >= 500 {
			r.h.RecordValue(monotonic() - t)
		}
	}
	return r, nil
}

func socket() (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return -1, err
	}
	tv := unix.Timeval{Sec: 5}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return -1, err
	}
	return fd, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

// receive waits for a datagram; the runtime's signals do not end the wait.
func receive(fd int, b []byte) (int, unix.Sockaddr, error) {
	for {
		n, from, err := unix.Recvfrom(fd, b, 0)
		if err != unix.EINTR {
			return n, from, err
		}
	}
}

// echo is the other process: it sends back what comes, until it is killed.
func echo() error {
	fd, err := socket()
	if err != nil {
		return err
	}
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return err
	}
	fmt.Println(sa.(*unix.SockaddrInet4).Port)
	b := make([]byte, 65536)
	for {
		n, from, err := receive(fd, b)
		if err != nil {
			return err
		}
		if err := unix.Sendto(fd, b[:n], 0, from); err != nil {
			return err
		}
	}
}
