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


KEYED: dict[str, Json] = {
    "cloudformation": {
        "RequestType": "Create",
        "ServiceToken": ARN.format("lambda", "function:seed"),
        "ResponseURL": "https://cloudformation-custom-resource-response.example.com/1?X-Amz-Signature=a",
        "StackId": ARN.format("cloudformation", "stack/shop/5b918d10-cd98-11ea-90d5-0a9cd3354c10"),
        "RequestId": "c6adce21-0b3c-4d8a-92f3-6e7d5a1e1f3b",
        "LogicalResourceId": "Seed",
        "ResourceType": "Custom::Seed",
        "ResourceProperties": {"ServiceToken": ARN.format("lambda", "function:seed"), "Rows": "5"},
    },
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
            "CustomEmailSender_SignUp",
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

ASYNCHRONOUS = {"cloudformation", "codepipeline", "ses", "config", "cloudwatch logs"} | {
    "iot button",
    "iot 1-click",
    "iot events",
}
"""Those of them for which Lambda invokes a function asynchronously."""
