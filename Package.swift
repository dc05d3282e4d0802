// swift-tools-version: 6.2

import PackageDescription

/// One list of strict settings for every Swift target.
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .treatAllWarnings(as: .error),
]

func library(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .target(name: name, dependencies: dependencies, swiftSettings: strict)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
  .testTarget(name: name, dependencies: dependencies, swiftSettings: strict)
}

let package = Package(
  name: "swift-websocket-handler",
  products: [
    .library(name: "WebSocketCore", targets: ["WebSocketCore"]),
    .library(name: "WebSocketTransport", targets: ["WebSocketTransport"]),
    .library(name: "WebSocketHandling", targets: ["WebSocketHandling"]),
    .library(name: "WebSocketChat", targets: ["WebSocketChat"]),
    .library(name: "WebSocketServing", targets: ["WebSocketServing"]),
    .library(name: "ActionCable", targets: ["ActionCable"]),
    .library(name: "StockQuotes", targets: ["StockQuotes"]),
    .library(name: "SupervisedChannels", targets: ["SupervisedChannels"]),
    .library(name: "StoreBridge", targets: ["StoreBridge"]),
    .library(name: "WebSocketTesting", targets: ["WebSocketTesting"]),
    .executable(name: "websocket", targets: ["websocket"]),
  ],
  targets: [
    .target(name: "CSystem"),
    library("WebSocketCore", []),
    library("WebSocketTransport", ["CSystem", "WebSocketCore"]),
    library("WebSocketHandling", ["WebSocketCore", "WebSocketTransport"]),
    library("WebSocketChat", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling"]),
    library("WebSocketServing", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling"]),
    library("ActionCable", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling"]),
    library("SupervisedChannels", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling"]),
    library("StoreBridge", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "ActionCable"]),
    library(
      "WebSocketTesting",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "ActionCable"]),
    library("StockQuotes", ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing"]),
    .executableTarget(
      name: "websocket",
      dependencies: [
        "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketChat", "WebSocketServing", "ActionCable",
        "StockQuotes",
      ],
      swiftSettings: strict),
    tests("WebSocketCoreTests", ["WebSocketCore", "WebSocketTesting"]),
    .target(name: "CFaults", path: "Tests/CFaults"),
    .target(
      name: "TestSupport", dependencies: ["WebSocketTransport", "WebSocketHandling"], path: "Tests/TestSupport",
      swiftSettings: strict),
    tests(
      "EndToEndTests",
      ["CFaults", "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "TestSupport", "WebSocketTesting"]),
    tests(
      "HandlerContractTests",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "TestSupport", "WebSocketTesting"]),
    tests(
      "TLSTests",
      [
        "CSystem", "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "TestSupport",
        "WebSocketTesting",
        "websocket",
      ]),
    tests(
      "WebSocketServingTests",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "WebSocketTesting"]),
    tests(
      "WebSocketHandlingTests",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "TestSupport", "WebSocketTesting"]),
    tests(
      "StockQuotesTests",
      [
        "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "StockQuotes",
        "TestSupport", "WebSocketTesting",
      ]),
    tests(
      "WebSocketChatTests",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketChat", "WebSocketTesting"]),
    tests(
      "ActionCableTests",
      ["WebSocketCore", "WebSocketTransport", "WebSocketHandling", "ActionCable", "TestSupport", "WebSocketTesting"]),
    tests(
      "SupervisedChannelsTests",
      [
        "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "SupervisedChannels",
        "TestSupport", "WebSocketTesting",
      ]),
    tests(
      "StoreBridgeTests",
      [
        "WebSocketCore", "WebSocketTransport", "WebSocketHandling", "WebSocketServing", "ActionCable", "StoreBridge",
        "TestSupport", "WebSocketTesting",
      ]),
  ]
)
