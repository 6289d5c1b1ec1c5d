package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// This initializer runs the proxy if this executable was started under the name of the proxy. Then the process never reaches main,
// which has other tasks.
var _ = func() bool {
	if len(os.Args) == 2 && os.Args[0] == "fleet-proxy" {
		if err := serve(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(1)
	}
	return true
}()

// receiveListener receives a listening socket from the sandbox helper over conn, and closes conn.
func receiveListener(conn *os.File) (net.Listener, error) {
	defer func() { _ = conn.Close() }()
	const fdSize = 4
	data, rights := make([]byte, 1), make([]byte, unix.CmsgSpace(fdSize))
	_, n, _, _, err := unix.Recvmsg(int(conn.Fd()), data, rights, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(errors.New("the sandbox helper ended before it sent a socket"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.Join(errors.New("the sandbox helper sent no socket"), err)
	}
	f := os.NewFile(uintptr(fds[0]), "listener")
	defer func() { _ = f.Close() }()
	return net.FileListener(f)
}
