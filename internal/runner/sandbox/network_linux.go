//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// proxyName is the name under which this executable runs as the proxy; see package proxy.
const proxyName = "fleet-proxy"

// checkNetworkNamespace returns nil if programs can have their own network namespace. Otherwise it returns an error
// that wraps ErrUnavailable.
var checkNetworkNamespace = sync.OnceValue(func() error {
	p, err := Start(Policy{Read: SystemPaths(), Network: Allow()}, "/bin/sh", []string{"sh", "-c", ":"}, &os.ProcAttr{})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: network allow needs a network namespace, which cannot be created: run the server as root, or let users create namespaces (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns): %w", ErrUnavailable, err)
	}
	return nil
})

// addNetworkNamespace changes the attributes so that the process gets its own network namespace, in which it may configure the
// loopback device.
func addNetworkNamespace(attr *os.ProcAttr) {
	sys := syscall.SysProcAttr{}
	if attr.Sys != nil {
		sys = *attr.Sys
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if sys.Credential != nil {
		credential := *sys.Credential
		credential.NoSetGroups = true
		uid, gid, sys.Credential = int(credential.Uid), int(credential.Gid), &credential
	}
	sys.Cloneflags |= syscall.CLONE_NEWNET
	if uid != 0 { // an ordinary user may create the namespace only in a user namespace of its own
		sys.Cloneflags |= syscall.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		sys.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN} // for connectProxy and for Policy.Mounts
	}
	attr.Sys = &sys
}

// startProxy starts the proxy for the addresses. The proxy is a confined child of the caller, and ends with the thread
// that started it. The helper must send the proxy's listening socket over the returned file.
func startProxy(addresses []string, attr *os.ProcAttr) (*os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	helperEnd, proxyEnd := os.NewFile(uintptr(pair[0]), "proxy"), os.NewFile(uintptr(pair[1]), "proxy")
	defer func() { _ = proxyEnd.Close() }()
	exe := helperPath()
	list, err := json.Marshal(addresses)
	if err != nil {
		return nil, errors.Join(err, helperEnd.Close())
	}
	sys := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if attr.Sys != nil {
		sys.Credential = attr.Sys.Credential
	}
	_, err = Start(Policy{Read: append([]string{exe}, SystemPaths()...)}, exe, []string{proxyName, string(list)}, &os.ProcAttr{
		Dir: "/", Env: []string{"GORACE=atexit_sleep_ms=0"}, Files: []*os.File{nil, nil, nil, proxyEnd}, Sys: sys,
	})
	if err != nil {
		return nil, errors.Join(err, helperEnd.Close())
	}
	return helperEnd, nil
}

// connectProxy starts the loopback device in the network namespace of the process. It also sends a listening socket in that namespace
// over the descriptor proxy, unless proxy is noDescriptor. It does nothing if the network is not a result of Allow.
func connectProxy(p Policy, proxy int) error {
	if p.Network.Kind() != allowPrefix {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request); err != nil {
		return err
	}
	if proxy == noDescriptor {
		return nil
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: proxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
		return err
	}
	syscall.CloseOnExec(proxy)
	if err := unix.Sendmsg(proxy, []byte{0}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("cannot send the proxy its socket: %w", err)
	}
	return nil
}
