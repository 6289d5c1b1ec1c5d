package rpc

import (
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	fleetv1 "fleet/gen/fleet/v1"
)

// agentMethods are the methods that an agent may call with its own token, as "/package.Service/Method".
var agentMethods = sync.OnceValue(func() map[string]bool {
	allowed := map[string]bool{}
	protoregistry.GlobalFiles.RangeFilesByPackage("fleet.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				m := methods.Get(j)
				if yes, _ := proto.GetExtension(m.Options(), fleetv1.E_ForAgents).(bool); yes {
					allowed["/"+string(m.Parent().FullName())+"/"+string(m.Name())] = true
				}
			}
		}
		return true
	})
	return allowed
})

// forAgents reports whether an agent may call the method with its own token. A method is closed to agents unless its
// options open it.
func forAgents(method string) bool {
	return agentMethods()["/"+strings.TrimPrefix(method, "/")]
}
