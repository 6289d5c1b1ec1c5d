// Package loopbacktest returns addresses for servers that a test stops and starts again.
package loopbacktest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// triedPorts counts the ports that Address has tried. These ports are below the range from which systems assign free ports.
var triedPorts atomic.Int32

// Address tries the ports from firstPort to firstPort+portCount-1.
const firstPort, portCount = 20000, 10000

// Address returns an address of this machine on which nothing listens, and which no other test of this process gets. So no other
// program takes the address while the test's server is down. Otherwise the server's clients would talk to that program, and the
// server could not start again. On Linux each process has its own host, so no test of another process gets the address either.
// Elsewhere all processes share 127.0.0.1, because no other address is certain to exist.
func Address(t testing.TB) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		pid := os.Getpid() // below 1 << 22
		host = fmt.Sprintf("127.%d.%d.%d", 64+pid>>16, pid>>8&255, pid&255)
	}
	for range portCount {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+int(triedPorts.Add(1))%portCount))
		if !isListening(address) { // dials, because listening would leave the address in use for a moment
			return address
		}
	}
	require.Fail(t, "no free port was found", "on %s", host)
	return ""
}

// WaitUntilFree waits until nothing listens at the address. A program that a process has just started holds copies of the process's
// open files for a moment, so an address can be in use even though its listener is closed. Call WaitUntilFree before a server
// starts again at its address.
func WaitUntilFree(t testing.TB, address string) {
	t.Helper()
	// No signal says when such a program has closed its copies.
	require.Eventually(t, func() bool { return !isListening(address) }, 10*time.Minute, 10*time.Millisecond)
}

// isListening reports whether something listens at the address.
func isListening(address string) bool {
	c, err := net.Dial("tcp", address)
	return err == nil && c.Close() == nil
}
