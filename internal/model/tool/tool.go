//go:build cgo

package tool
