package main

import (
	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	_ "github.com/coder/coder/v2/codersdk"
	_ "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	_ "github.com/fullstorydev/grpchan/inprocgrpc"
	_ "github.com/mark3labs/mcp-go/server"
	_ "github.com/pressly/goose/v3"
	_ "github.com/spf13/cobra"
	_ "github.com/fsnotify/fsnotify"
	_ "gopkg.in/dnaeon/go-vcr.v3/recorder"
	_ "modernc.org/sqlite"
	_ "github.com/stretchr/testify/require"
	_ "pgregory.net/rapid"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/adrg/xdg"
	_ "github.com/goccy/go-yaml"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "github.com/google/uuid"
)

func main() {}
