// Package loopbacktest has addresses for servers of tests that end and start again.
package loopbacktest

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// lastPort is the last port that was given out. They are below those that systems choose for a program that asks for any.
var lastPort atomic.Int32

const firstPort, ports = 20000, 10000

// Address returns an address of this machine on which nothing listens, and which no other test gets. So while a server at it is down, no
// other program takes its place: its clients would talk to that one, and it could not start again. On Linux the host is one that no
// other process uses; elsewhere only 127.0.0.1 is sure to exist, and all share it.
func Address(t testing.TB) string {
	t.Helper()
	host := "127.0.0.1"
	if runtime.GOOS == "linux" {
		pid := os.Getpid() // below 1 << 22
		host = fmt.Sprintf("127.%d.%d.%d", 64+pid>>16, pid>>8&255, pid&255)
	}
	for range ports {
		address := net.JoinHostPort(host, strconv.Itoa(firstPort+int(lastPort.Add(1))%ports))
		l, err := net.Listen("tcp", address)
		if err == nil {
			require.NoError(t, l.Close())
			Release()
			return address
		}
	}
	require.Fail(t, "every port is in use", "of %s", host)
	return ""
}

// Release waits until each program that this process is starting runs. Until then it has what was open when its start began, so that an
// address is in use though its listener is closed. A server that starts again at its address calls it first.
func Release() {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
}
