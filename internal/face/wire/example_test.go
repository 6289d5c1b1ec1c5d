package wire_test

import (
	"fmt"
	"log"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/wire"
)

// A face reads the request of a client and writes the answer in the same form as every other face.
func Example() {
	var request fleetv1.CreateAgentRequest
	if err := wire.Unmarshal([]byte(`{"name": "papi", "project": "shell", "spec": "Keep the build green"}`), &request); err != nil {
		log.Panic(err)
	}
	answer, err := wire.Marshal(&fleetv1.CreateAgentResponse{Message: "Agent '" + request.GetName() + "' created"})
	if err != nil {
		log.Panic(err)
	}
	fmt.Println(string(answer))

	// A mistake of a client is an error with a reason, for programs, and a message that says what to do.
	err = wire.Unmarshal([]byte(`{"nmae": "papi"}`), &request)
	fmt.Println(wire.HTTPStatus(err), string(wire.ErrorBody(err)))
	// Output:
	// {"agent":null,"message":"Agent 'papi' created"}
	// 400 {"error":"INVALID_ARGUMENT","message":"unknown field \"nmae\": did you mean \"name\"?","details":{"field":"nmae"}}
}
