package inbound

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// CanFindUser reports whether Conn.User works on this system.
const CanFindUser = true

// scanMu lets one goroutine at a time read the tables, so that many new connections use at most one CPU.
var scanMu sync.Mutex

// socketUser returns the user of the socket with these ends. A program that uses IPv6 has its sockets to IPv4 addresses
// in the IPv6 table, so both tables are read. It returns ErrConfined if a confined program holds the socket, errHidden if one may hold it,
// and errSocketNotFound if no program holds it.
func socketUser(local, remote netip.AddrPort) (int, error) {
	scanMu.Lock()
	defer scanMu.Unlock()
	var errs []error
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			errs = append(errs, err) // for example, a machine without IPv6
			continue
		}
		user, inode, err := findSocket(f, local, remote)
		_ = f.Close()
		if err == nil {
			switch isConfined, err := isHolderConfined(inode); {
			case err != nil:
				return 0, err
			case isConfined:
				return 0, ErrConfined
			}
			return user, nil
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// These are the columns of the tables.
const (
	fieldLocal = 1 + iota
	fieldRemote
	fieldState
	_ // queues
	_ // timer
	_ // retransmits
	fieldUser
	_ // timeout
	fieldInode
	minFields
)

// timeWait is the state TIME_WAIT in the tables. A program has closed such a socket.
const timeWait = "06"

// findSocket returns the user and the inode of the socket in the table, or errSocketNotFound if it is not there. A socket that no program
// holds any more counts as absent, because the kernel shows root as its user.
func findSocket(table io.Reader, local, remote netip.AddrPort) (user int, inode string, err error) {
	forms := [2][]string{tableForms(local), tableForms(remote)}
	rows := bufio.NewScanner(table)
	for rows.Scan() {
		if !bytes.Contains(rows.Bytes(), []byte(forms[0][0])) { // skip most rows without parsing them
			continue
		}
		f := strings.Fields(rows.Text())
		if len(f) < minFields || !slices.Contains(forms[0], f[fieldLocal]) || !slices.Contains(forms[1], f[fieldRemote]) {
			continue
		}
		if f[fieldState] == timeWait || f[fieldInode] == "0" {
			return 0, "", errSocketNotFound
		}
		user, err := strconv.Atoi(f[fieldUser])
		if err != nil {
			return 0, "", fmt.Errorf("cannot read the table of sockets: %w", err)
		}
		return user, f[fieldInode], nil
	}
	if err := rows.Err(); err != nil {
		return 0, "", err
	}
	return 0, "", errSocketNotFound
}

// isEstablished reports whether neither end has closed the connection. It returns false if that cannot be found out.
func isEstablished(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var info *unix.TCPInfo
	if cerr := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); cerr != nil || err != nil {
		return false
	}
	return info.State == unix.BPF_TCP_ESTABLISHED
}

// tableForms returns the forms in which the tables may write an address: words of 4 bytes, each in the machine's byte
// order. The first form is a suffix of the others.
func tableForms(a netip.AddrPort) []string {
	address, port := a.Addr().Unmap(), fmt.Sprintf(":%04X", a.Port())
	forms := []string{hexWords(address.AsSlice()) + port}
	if address.Is4() {
		mapped := address.As16()
		forms = append(forms, hexWords(mapped[:])+port)
	}
	return forms
}

func hexWords(b []byte) string {
	var s strings.Builder
	for ; len(b) >= 4; b = b[4:] {
		fmt.Fprintf(&s, "%08X", binary.NativeEndian.Uint32(b))
	}
	return s.String()
}
