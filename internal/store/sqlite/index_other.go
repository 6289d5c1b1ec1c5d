//go:build !linux

package sqlite

import "errors"

func mapped(string, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }
