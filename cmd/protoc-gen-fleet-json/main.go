// Command protoc-gen-fleet-json writes *.pb.json.go, with methods that write and read the messages of the API as JSON
// without reflection. Every response gets the method AppendJSON, and every request gets the method ReadField. Package
// wire defines the JSON form, and the generated code calls it for every value.
package main

import (
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(generate)
}

// generate writes a file for each proto file that has a request or an answer.
func generate(p *protogen.Plugin) error {
	p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
	use := usesOf(p.Files)
	for _, f := range p.Files {
		if !f.Generate {
			continue
		}
		g := generator{plugin: p, file: f, use: use}
		if err := g.messages(f.Messages); err != nil {
			return err
		}
	}
	return nil
}
