"""One event of each AWS service that invokes functions by itself, in the shape its developer guide gives."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ARN = "arn:aws:{}:eu-central-1:123456789012:{}"


def cognito(trigger: str) -> Json:
    """An event of a user pool's trigger."""
    return {
        "version": "1",
        "triggerSource": trigger,
        "region": "eu-central-1",
        "userPoolId": "eu-central-1_EXAMPLE",
        "userName": "ann",
        "callerContext": {
            "awsSdkVersion": "aws-sdk-unknown-unknown",
            "clientId": "7471s60os7h0uu77i1tk27sp9n",
        },
        "request": {"userAttributes": {"email": "ann@example.com"}},
        "response": {},
    }


def rotation(step: str) -> Json:
    """One step of the rotation of a secret."""
    return {
        "Step": step,
        "SecretId": ARN.format("secretsmanager", "secret:db-a1b2c3"),
        "ClientRequestToken": "550e8400-e29b-41d4-a716-446655440000",
        "RotationToken": "6ca7d8a0-8f4d-4d6f-9c65-9c5f0b6b8c4e",
    }


CREATE: Json = {
    "RequestType": "Create",
    "ServiceToken": ARN.format("lambda", "function:seed"),
    "ResponseURL": "https://cloudformation-custom-resource-response.example.com/1?X-Amz-Signature=a",
    "StackId": ARN.format("cloudformation", "stack/shop/5b918d10-cd98-11ea-90d5-0a9cd3354c10"),
    "RequestId": "c6adce21-0b3c-4d8a-92f3-6e7d5a1e1f3b",
    "LogicalResourceId": "Seed",
    "ResourceType": "Custom::Seed",
    "ResourceProperties": {"ServiceToken": ARN.format("lambda", "function:seed"), "Rows": "5"},
}
"""The first request of CloudFormation for a custom resource."""

KEYED: dict[str, Json] = {
    "cloudformation": CREATE,
    "cloudformation, update": CREATE
    | {"RequestType": "Update", "PhysicalResourceId": "seed-1", "OldResourceProperties": {"Rows": "4"}},
    "codepipeline": {
        "CodePipeline.job": {
            "id": "11111111-abcd-1111-abcd-111111abcdef",
            "accountId": "123456789012",
            "data": {
                "actionConfiguration": {
                    "configuration": {"FunctionName": "deploy", "UserParameters": "prod"}
                },
                "inputArtifacts": [],
                "outputArtifacts": [],
                "artifactCredentials": {"accessKeyId": "AKIAEXAMPLE", "sessionToken": "one"},
            },
        }
    },
    "ses": {
        "Records": [
            {
                "eventSource": "aws:ses",
                "eventVersion": "1.0",
                "ses": {
                    "mail": {
                        "timestamp": "2026-11-20T10:12:00.000Z",
                        "source": "ann@example.com",
                        "messageId": "o3vrnil0e2ic28trm7dfhrc2v0clambda4nbp0g1",
                        "destination": ["orders@example.com"],
                    },
                    "receipt": {"processingTimeMillis": 574, "spamVerdict": {"status": "PASS"}},
                },
            }
        ]
    },
    "secrets manager": rotation("createSecret"),
}
"""Services whose events have a stable identity."""

VOLATILE: dict[str, list[tuple[str, ...]]] = {
    "cloudformation": [("ResponseURL",), ("ServiceToken",)],
    "cloudformation, update": [("ResponseURL",)],
    "codepipeline": [("CodePipeline.job", "data", "artifactCredentials", "sessionToken")],
    "ses": [
        ("Records", "0", "ses", "receipt", "processingTimeMillis"),
        ("Records", "0", "ses", "mail", "timestamp"),
    ],
    "secrets manager": [("RotationToken",)],
}
"""What of them another delivery may change."""

ASKING: dict[str, object] = {
    "cognito, after confirmation": cognito("PostConfirmation_ConfirmSignUp"),
    "cognito, after authentication": cognito("PostAuthentication_Authentication"),
    "cognito, a sender of mails": cognito("CustomEmailSender_ForgotPassword"),
    "cognito, a sender of texts": cognito("CustomSMSSender_SignUp"),
    "appsync": {
        "arguments": {"id": "o-1"},
        "identity": {"sub": "ann", "claims": {"iat": 1763633520}},
        "source": None,
        "request": {"headers": {"x-amzn-trace-id": "Root=1-5759e988-bd862e3fe1be46a994272793"}},
        "prev": None,
        "info": {"fieldName": "placeOrder", "parentTypeName": "Mutation", "variables": {}},
        "stash": {},
    },
    "appsync, a batch": [
        {"typeName": "Order", "fieldName": "lines", "arguments": {}, "request": {"headers": {}}, "source": {}}
    ],
    "appsync events": {
        "info": {
            "channel": {"path": "/default/orders", "segments": ["default", "orders"]},
            "channelNamespace": {"name": "default"},
            "operation": "PUBLISH",
        },
        "events": [{"id": "1", "payload": {"order": 5}}],
        "request": {"headers": {}},
    },
    "websocket": {
        "requestContext": {
            "connectionId": "L0SM9cOFvHcCIhw=",
            "routeKey": "place",
            "eventType": "MESSAGE",
            "messageId": "JKJaXmPLvHcCIhw=",
            "apiId": "abc123",
        },
        "body": '{"order": 5}',
        "isBase64Encoded": False,
    },
    "config": {
        "version": "1.0",
        "invokingEvent": '{"messageType": "ScheduledNotification"}',
        "ruleParameters": "{}",
        "resultToken": "myResultToken",
        "eventLeftScope": False,
        "configRuleArn": ARN.format("config", "config-rule/config-rule-0123456"),
        "configRuleName": "tagged",
        "accountId": "123456789012",
    },
    "cloudwatch logs": {
        "awslogs": {
            "data": "H4sIAAAAAAAAAHWPwQqCQBCGX0Xm7EFtK+smZBEUgXoLCdMhFtKV3akI8d0bLYmibvPPN3wz00CJxmQnTO41"
        }
    },
    "lex v1": {
        "messageVersion": "1.0",
        "invocationSource": "FulfillmentCodeHook",
        "userId": "ABCD1234",
        "bot": {"name": "shop", "alias": "prod", "version": "1"},
        "currentIntent": {"name": "order", "slots": {}, "confirmationStatus": "Confirmed"},
    },
    "lex v2": {
        "messageVersion": "1.0",
        "invocationSource": "DialogCodeHook",
        "inputMode": "Text",
        "sessionId": "s-1",
        "inputTranscript": "order tea",
        "bot": {"id": "B", "name": "shop", "localeId": "en_GB", "version": "1"},
        "sessionState": {"intent": {"name": "order"}},
    },
    "connect": {
        "Name": "ContactFlowEvent",
        "Details": {
            "ContactData": {"Channel": "VOICE", "ContactId": "4a573372-1f28-4e26-b97b-XXXXXXXXXXX"},
            "Parameters": {},
        },
    },
    "iot button": {"serialNumber": "GXXXXXXXXXXXXXXXX", "batteryVoltage": "1582mV", "clickType": "SINGLE"},
    "iot 1-click": {
        "deviceInfo": {"deviceId": "G030", "type": "button"},
        "deviceEvent": {"buttonClicked": {"clickType": "SINGLE"}},
        "placementInfo": {"projectName": "shop", "attributes": {}},
    },
    "iot events": {
        "event": {
            "eventName": "charged",
            "eventTime": 1763633520000,
            "payload": {
                "actionExecutionId": "49f0f32f-1209-38a7-8a76-d6ca49dd0bc4",
                "detector": {"keyValue": "1"},
            },
        }
    },
    "bedrock agent": {
        "messageVersion": "1.0",
        "agent": {"name": "shop", "id": "A", "alias": "T", "version": "1"},
        "sessionId": "123456789012",
        "inputText": "order tea",
        "actionGroup": "orders",
        "apiPath": "/orders",
        "httpMethod": "POST",
    },
    "documentdb": {
        "eventSource": "aws:docdb",
        "eventSourceArn": ARN.format("rds", "cluster:orders"),
        "events": [
            {"event": {"_id": {"_data": "0163eeb6e7000000090100000009000041e1"}, "operationType": "insert"}}
        ],
    },
    "an unknown service": {"Records": [{"eventSource": "aws:brandnew", "brandnew": {"id": "1"}}]},
    "an alarm": {
        "source": "aws.cloudwatch",
        "alarmArn": ARN.format("cloudwatch", "alarm:errors"),
        "time": "2026-11-20T10:12:00.000+0000",
        "alarmData": {"alarmName": "errors", "state": {"value": "ALARM"}},
    },
}
"""Services whose events need a ``key=``."""

REFUSED: dict[str, object] = {
    **{
        trigger: cognito(trigger)
        for trigger in (
            "PreSignUp_SignUp",
            "PreAuthentication_Authentication",
            "TokenGeneration_Authentication",
            "DefineAuthChallenge_Authentication",
            "CreateAuthChallenge_Authentication",
            "VerifyAuthChallengeResponse_Authentication",
            "UserMigration_Authentication",
            "CustomMessage_SignUp",
            "InboundFederation_ExternalProvider",
        )
    },
    "testSecret": rotation("testSecret"),
    "an appsync authorizer": {
        "authorizationToken": "BE9DC5E3-D410-4733-AF76-70178092E681",
        "requestContext": {
            "apiId": "giy7kumfmvcqvbedntjwjvagii",
            "accountId": "123456789012",
            "requestId": "r",
        },
    },
    "vpc lattice, event structure 1": {
        "raw_path": "/orders/5/pay",
        "method": "POST",
        "headers": {"content-type": "application/json", "idempotency-key": "k"},
        "query_string_parameters": {},
        "body": '{"orderId": 5}',
        "is_base64_encoded": False,
    },
    "vpc lattice, event structure 2": {
        "version": "2.0",
        "path": "/orders/5/pay",
        "method": "POST",
        "headers": {"content-type": ["application/json"], "idempotency-key": ["k"]},
        "queryStringParameters": {},
        "body": '{"orderId": 5}',
        "isBase64Encoded": False,
        "requestContext": {
            "serviceNetworkArn": ARN.format("vpc-lattice", "servicenetwork/sn-0bf3f2882e9cc805a"),
            "serviceArn": ARN.format("vpc-lattice", "service/svc-0a40eebed65f8d69c"),
            "targetGroupArn": ARN.format("vpc-lattice", "targetgroup/tg-6d0ecf831eec9f09"),
            "identity": {
                "sourceVpcArn": ARN.format("ec2", "vpc/vpc-0b8276c84697e7339"),
                "type": "AWS_IAM",
                "principal": "arn:aws:sts::123456789012:assumed-role/checkout/checkout-1",
            },
            "region": "eu-central-1",
            "timeEpoch": "1795169520000000",
        },
    },
    "transfer family, by password": {
        "username": "alice",
        "password": "secret",
        "protocol": "SFTP",
        "serverId": "s-1234567890abcdef0",
        "sourceIp": "192.0.2.10",
    },
    "transfer family, by key": {
        "username": "alice",
        "protocol": "FTPS",
        "serverId": "s-1234567890abcdef0",
        "sourceIp": "192.0.2.10",
    },
    "cdk, isComplete of a create": CREATE | {"PhysicalResourceId": "table-5"},
    "cdk, isComplete of an update": CREATE
    | {"RequestType": "Update", "PhysicalResourceId": "table-5", "OldResourceProperties": {}, "Data": {}},
    "iot authorizer": {
        "token": "aToken",
        "signatureVerified": True,
        "protocols": ["tls", "http", "mqtt"],
        "protocolData": {
            "tls": {"serverName": "serverName"},
            "mqtt": {"username": "ann", "password": "bXlQYXNzd29yZA==", "clientId": "c-1"},
        },
        "connectionMetadata": {"id": "e56f08c3-c559-490f-aa9f-7e8427d0f57b"},
    },
    "iot authorizer, without a token": {
        "signatureVerified": False,
        "protocols": ["mqtt"],
        "protocolData": {"mqtt": {"username": "ann", "clientId": "c-1"}},
    },
    "iot provisioning": {
        "claimCertificateId": "2f4c",
        "certificateId": "7d1a",
        "certificatePem": "-----BEGIN CERTIFICATE-----",
        "templateArn": ARN.format("iot", "provisioningtemplate/lamps"),
        "clientId": "221a6d10-9c7f-42f1-9153-e52e6fc869c1",
        "parameters": {"SerialNumber": "5"},
    },
    "client vpn": {
        "connection-id": "cvpn-connection-04e7e1b2f0daf9460",
        "endpoint-id": "cvpn-endpoint-0f13eab7f860433cc",
        "common-name": "",
        "username": "ann",
        "platform": "linux",
        "public-ip": "192.0.2.10",
        "schema-version": "v1",
    },
    "lambda@edge": {
        "Records": [
            {
                "cf": {
                    "config": {"distributionId": "EDFDVBD6EXAMPLE", "eventType": "viewer-request"},
                    "request": {"method": "GET", "uri": "/a", "clientIp": "192.0.2.10", "headers": {}},
                }
            }
        ]
    },
    "cognito sync": {
        "version": 2,
        "eventType": "SyncTrigger",
        "region": "eu-central-1",
        "identityPoolId": "eu-central-1:p",
        "identityId": "eu-central-1:i",
        "datasetName": "settings",
        "datasetRecords": {"theme": {"oldValue": "light", "newValue": "dark", "op": "replace"}},
    },
    "auto scaling": {
        "AutoScalingGroupARN": ARN.format("autoscaling", "autoScalingGroup:5:autoScalingGroupName/shop"),
        "AutoScalingGroupName": "shop",
        "CapacityToTerminate": [{"AvailabilityZone": "eu-central-1a", "Capacity": 1}],
        "Instances": [{"AvailabilityZone": "eu-central-1a", "InstanceId": "i-0a1b2c3d4e5f60111"}],
        "Cause": "SCALE_IN",
    },
    "cloudformation hook": {
        "clientRequestToken": "4b90a7e4-b790-456b-a937-0cfdfa211dfe",
        "awsAccountId": "123456789012",
        "hookTypeName": "Shop::Rules::Buckets",
        "hookTypeVersion": "1",
        "actionInvocationPoint": "CREATE_PRE_PROVISION",
        "requestData": {"targetName": "AWS::S3::Bucket", "targetLogicalId": "Files"},
        "requestContext": {"invocation": 1, "callbackContext": None},
    },
    "cloudformation macro": {
        "region": "eu-central-1",
        "accountId": "123456789012",
        "fragment": {"Resources": {}},
        "transformId": "123456789012::Shop",
        "params": {},
        "requestId": "7a2c",
        "templateParameterValues": {},
    },
    "agentcore interceptor": {
        "interceptorInputVersion": "1.0",
        "mcp": {
            "gatewayRequest": {
                "path": "/mcp",
                "httpMethod": "POST",
                "body": {"id": 1, "method": "tools/call"},
            }
        },
    },
    "appconfig extension": {
        "InvocationId": "vlns753",
        "Type": "PreStartDeployment",
        "Parameters": {},
        "Application": {"Id": "abc", "Name": "shop"},
    },
    "ecs lifecycle hook": {
        "executionDetails": {
            "testTrafficWeights": {},
            "productionTrafficWeights": {},
            "serviceArn": ARN.format("ecs", "service/shop/web"),
            "targetServiceRevisionArn": ARN.format("ecs", "service-revision/shop/web/9386398427419951854"),
        },
        "executionId": "a635edb5-a66b-4f44-bf3f-fcee4b3641a5",
        "lifecycleStage": "POST_TEST_TRAFFIC_SHIFT",
        "resourceArn": ARN.format("ecs", "service-deployment/shop/web/TFX5sH9q9XDboDTOv0rIt"),
    },
    **{
        f"s3 object lambda, {call}": {
            "xAmzRequestId": "1a5ed718-5f53-471d-b6fe-5cf62d88d02a",
            f"{call}Context": {
                "inputS3Url": "https://files.s3-accesspoint.eu-central-1.amazonaws.com/a.csv?X-Amz-Signature=1"
            },
            "configuration": {"payload": ""},
            "userRequest": {"url": "https://files.s3-object-lambda.example.com/a.csv", "headers": {}},
            "userIdentity": {"type": "AssumedRole"},
            "protocolVersion": "1.00",
        }
        for call in ("getObject", "headObject", "listObjects", "listObjectsV2")
    },
    "kinesis analytics": {
        "invocationId": "00540a87-5050-496a-84e4-e7d92bbaf5e2",
        "applicationArn": ARN.format("kinesisanalytics", "application/shop"),
        "records": [
            {"recordId": "1", "lambdaDeliveryRecordMetadata": {"retryHint": 0}, "data": "aGVsbG8gd29ybGQ="}
        ],
    },
    "a widget": {"widgetContext": {"dashboardName": "shop", "widgetId": "widget-16", "params": {}}},
    "a source of metrics": {
        "EventType": "GetMetricData",
        "GetMetricDataRequest": {
            "StartTime": 1763633520,
            "EndTime": 1763633820,
            "Period": 60,
            "Arguments": [],
        },
    },
    "a call of chime": {
        "SchemaVersion": "1.0",
        "Sequence": 1,
        "InvocationEventType": "NEW_INBOUND_CALL",
        "CallDetails": {"TransactionId": "46e6f593-1f1c-4808-9166-a141624cf145", "Participants": []},
    },
    "redshift udf": {
        "request_id": "23FF1F97-F28A-44AA-AB67-266ED976BF40",
        "cluster": ARN.format("redshift", "cluster:shop"),
        "external_function": "public.vat",
        "query_id": 5678234,
        "num_records": 1,
        "arguments": [[5]],
    },
    "athena": {
        "@type": "ReadRecordsRequest",
        "identity": {"id": "UNKNOWN", "principal": "UNKNOWN", "account": "123456789012"},
        "queryId": "exc3",
        "catalogName": "shop",
    },
    "firehose": {
        "invocationId": "2b4d1ad9-2f48-94bd-a088-767c317e994a",
        "deliveryStreamArn": ARN.format("firehose", "deliverystream/orders"),
        "region": "eu-central-1",
        "records": [{"recordId": "record1", "approximateArrivalTimestamp": 1763633520000, "data": "e30="}],
    },
    "s3 batch": {
        "invocationSchemaVersion": "2.0",
        "invocationId": "YXNkbGZqYWRmaiBhc2RmdW9hZHNmZGpmaGFzbGtkaGZza2RmaAo",
        "job": {"id": "f3cc4f60-61f6-4a2b-8a21-d07600c373ce", "userArguments": {}},
        "tasks": [
            {"taskId": "dGFza2lkZ29lc2hlcmUK", "s3Key": "a.csv", "s3VersionId": None, "s3Bucket": "in"}
        ],
    },
    "a tumbling window": {
        "Records": [{"eventSource": "aws:kinesis", "kinesis": {"data": "e30=", "sequenceNumber": "1"}}],
        "window": {"start": "2026-11-20T10:12:00Z", "end": "2026-11-20T10:14:00Z"},
        "state": {},
        "shardId": "shardId-000000000006",
        "isFinalInvokeForWindow": False,
        "isWindowTerminatedEarly": False,
    },
    "the end of a tumbling window": {
        "Records": [],
        "window": {"start": "2026-11-20T10:12:00Z", "end": "2026-11-20T10:14:00Z"},
        "state": {"1": 2},
        "isFinalInvokeForWindow": True,
        "isWindowTerminatedEarly": False,
    },
}
"""Services whose response must not be replayed."""

ASYNCHRONOUS = {
    "cloudformation",
    "cloudformation, update",
    "codepipeline",
    "ses",
    "config",
    "cloudwatch logs",
} | {
    "iot button",
    "iot 1-click",
    "iot events",
}
"""Those of them for which Lambda invokes a function asynchronously."""
