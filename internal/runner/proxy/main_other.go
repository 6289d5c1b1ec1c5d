//go:build !linux

package proxy

import (
	"errors"
	"net"
	"os"
)

func receiveListener(*os.File) (net.Listener, error) { return nil, errors.ErrUnsupported }
